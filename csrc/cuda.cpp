// CUDA: checks, allocation and device for the kernels of cuda_kernels.cu. Without this key the composite would serve,
// with three kernels and three allocations for a backward instead of one of each.
#include <ATen/EmptyTensor.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "common.h"
#include "cuda_kernels.h"

namespace torchsquare {
namespace {

at::Tensor run(void (*launch)(at::ScalarType, const Operands&), at::ArrayRef<at::Tensor> inputs) {
  const auto& self = inputs.back();
  const auto result_dtype = self.scalar_type() == at::kBool ? at::kLong : self.scalar_type();
  const c10::cuda::CUDAGuard guard(self.device());
  Operands operands{self.numel()};
  bool is_dense = self.numel() > 0 && self.is_non_overlapping_and_dense();
  for (size_t i = 0; i < inputs.size(); ++i) {
    operands.inputs[i] = inputs[i].const_data_ptr();
    operands.is_scalar[i] = at::detail::computeStorageNbytes(inputs[i].sizes(), inputs[i].strides(), 1) == 1;
    is_dense &= operands.is_scalar[i] || inputs[i].strides() == self.strides();
  }
  if (is_dense) {
    // As TensorIterator has it: in these two formats, dimensions of size 1 get the strides that belong to the format.
    const auto format = self.is_contiguous() ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast;
    at::Tensor result = self.is_contiguous(format)
                            ? at::detail::empty_cuda(self.sizes(), result_dtype, self.device(), format)
                            : at::detail::empty_strided_cuda(self.sizes(), self.strides(), result_dtype, self.device());
    operands.out = result.mutable_data_ptr();
    launch(self.scalar_type(), operands);
    return result;
  }
  // TensorIterator finds the strides of the result, allocates it and merges dimensions. That takes longer than all the
  // rest of a small call: hence the way without it.
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).declare_static_dtype_and_device(result_dtype, self.device()).add_owned_output({});
  for (const auto& input : inputs) config.add_const_input(input);
  auto iter = config.build();
  operands.iter = &iter;
  launch(self.scalar_type(), operands);
  return iter.output();
}

at::Tensor square_cuda(const at::Tensor& self) {
  // torch.square converts bool first: the strides are those of the copy, which are others where there are gaps.
  if (self.scalar_type() == at::kBool && !self.is_non_overlapping_and_dense()) return square_cuda(self.to(at::kLong));
  return run(launch_square, {self});
}

at::Tensor square_backward_cuda(const at::Tensor& grad_output, const at::Tensor& self) {
  check_same_properties(grad_output, self);
  return run(launch_square_backward, {grad_output, self});
}

} // namespace
} // namespace torchsquare

TORCH_LIBRARY_IMPL(torchsquare, CUDA, m) {
  m.impl("square", torchsquare::square_cuda);
  m.impl("square_backward", torchsquare::square_backward_cuda);
}
