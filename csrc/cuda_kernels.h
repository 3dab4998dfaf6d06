// What cuda.cpp knows of the kernels.
#pragma once

namespace at {
struct TensorIteratorBase;
}

namespace torchsquare {

/// Computes the iterator's output from its inputs, (self) or (grad_output, self), of one dtype (output int64 for bool),
/// on the current stream of the current device, which must be the tensors'. Throws c10::NotImplementedError for a dtype
/// that torch.square does not take on CUDA; launches nothing where there are no elements.
void launch_square(at::TensorIteratorBase& iter);
void launch_square_backward(at::TensorIteratorBase& iter);

} // namespace torchsquare
