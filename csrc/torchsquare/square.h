// The C++ API of torchsquare: both functions call through the PyTorch dispatcher, so autograd, autocast,
// forward-mode AD and every backend apply to them as they apply to torch.ops.torchsquare from Python.
#pragma once

#include <ATen/core/Tensor.h>

#define TORCHSQUARE_API __attribute__((visibility("default"))) // all else is hidden

namespace torchsquare {

/// Squares every element: Y = X².
///
/// \param self  a tensor of any shape and layout, of a dtype that torch.square takes on its device.
/// \return a new tensor of the shape of `self`, with the strides, the device and the dtype that torch.square gives it
///     (that of `self`; int64 for bool). Integers wrap; half and bfloat16 are computed in float and rounded once.
/// \throws c10::NotImplementedError for any other dtype.
///
/// Differentiable to any order; the gradient is `square_backward(grad_output, self)`.
/// Write `torchsquare::square(x)`: unqualified, argument-dependent lookup finds at::square too.
TORCHSQUARE_API at::Tensor square(const at::Tensor& self);

/// The gradient of `square`: grad_X = grad_Y · 2·conj(X), from d(x²)/dx = 2x (conj(x) = x where x is real).
///
/// \param grad_output  the gradient of the loss with respect to `square(self)`, in any layout.
/// \param self  the input of the forward, of the same shape, dtype and device as `grad_output`.
/// \return a new tensor of that shape, dtype (int64 for bool) and device. It is computed as
///     `2 * (grad_output * conj(self))`, in that order: nothing overflows on the way unless the result does.
/// \throws c10::Error where shape, dtype or device differ, c10::NotImplementedError as `square` does.
///
/// Differentiable to any order in both arguments.
TORCHSQUARE_API at::Tensor square_backward(const at::Tensor& grad_output, const at::Tensor& self);

} // namespace torchsquare
