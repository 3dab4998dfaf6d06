// CUDA: checks, allocation and device for the kernels of cuda_kernels.cu. Without this key the composite would serve,
// with three kernels and three allocations for a backward instead of one of each.
#include <ATen/TensorIterator.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "common.h"
#include "cuda_kernels.h"

namespace torchsquare {
namespace {

// TensorIterator computes the strides of the result, allocates it, and merges dimensions where it can.
at::TensorIterator make_iterator(at::ArrayRef<at::Tensor> inputs) {
  const auto dtype = inputs[0].scalar_type() == at::kBool ? at::kLong : inputs[0].scalar_type();
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false)
      .declare_static_dtype_and_device(dtype, inputs[0].device())
      .add_owned_output(at::Tensor());
  for (const auto& input : inputs) config.add_const_input(input);
  return config.build();
}

at::Tensor square_cuda(const at::Tensor& self) {
  const c10::cuda::CUDAGuard guard(self.device());
  auto iter = make_iterator({self});
  launch_square(iter);
  return iter.output();
}

at::Tensor square_backward_cuda(const at::Tensor& grad_output, const at::Tensor& self) {
  check_same_properties(grad_output, self);
  const c10::cuda::CUDAGuard guard(self.device());
  auto iter = make_iterator({grad_output, self});
  launch_square_backward(iter);
  return iter.output();
}

} // namespace
} // namespace torchsquare

TORCH_LIBRARY_IMPL(torchsquare, CUDA, m) {
  m.impl("square", torchsquare::square_cuda);
  m.impl("square_backward", torchsquare::square_backward_cuda);
}
