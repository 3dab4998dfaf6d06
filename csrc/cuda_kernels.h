// What cuda.cpp knows of the kernels.
#pragma once

#include <ATen/TensorIterator.h>

namespace torchsquare {

/// The operands of a kernel: those of an iterator; or, where it is null, elements without gaps and in the same order.
struct Operands {
  int64_t numel;
  at::TensorIteratorBase* iter = nullptr;
  void* out = nullptr;
  const void* inputs[2] = {}; // (self) or (grad_output, self)
  bool is_scalar[2] = {};     // whether the input is one element that serves for all
};

/// Compute the output from inputs of the dtype (int64 from bool) on the current stream of the current device. Throw
/// c10::NotImplementedError for a dtype that torch.square does not take on CUDA. Launch nothing without elements.
void launch_square(at::ScalarType dtype, const Operands& operands);
void launch_square_backward(at::ScalarType dtype, const Operands& operands);

} // namespace torchsquare
