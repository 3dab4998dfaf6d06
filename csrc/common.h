// What several dispatch keys share: the check of square_backward's arguments and the composite of each operator.
#pragma once

#include <ATen/core/Tensor.h>

namespace torchsquare {

/// Throws unless `grad_output` and `self` agree in shape, dtype and device: square_backward never broadcasts,
/// promotes or copies between devices. Every kernel of it calls this first.
inline void check_same_properties(const at::Tensor& grad_output, const at::Tensor& self) {
  const auto check = [](const char* property, const auto& of_grad_output, const auto& of_self) {
    TORCH_CHECK(
        of_grad_output == of_self, "torchsquare::square_backward: expected grad_output and self to have the same ",
        property, ", got ", of_grad_output, " and ", of_self);
  };
  check("shape", grad_output.sym_sizes(), self.sym_sizes());
  check("dtype", grad_output.scalar_type(), self.scalar_type());
  check("device", grad_output.device(), self.device());
}

/// The operators in terms of ATen's, defined in composite_implicit_autograd.cpp.
namespace composite {
at::Tensor square(const at::Tensor& self);
at::Tensor square_backward(const at::Tensor& grad_output, const at::Tensor& self);
} // namespace composite

} // namespace torchsquare
