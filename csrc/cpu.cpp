// CPU: ATen's vectorised, multithreaded operators, called below autograd. Without this key the composite would serve:
// half 20 times slower, small half gradients rounded twice, and traced graphs would show ATen's operators, not these.
#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <torch/library.h>

#include "common.h"

namespace torchsquare {
namespace {

// ATen's mul knows dtypes that torch.square refuses.
void check_dtype(const char* op, at::ScalarType dtype) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      dtype == at::kBFloat16 || dtype == at::kHalf || dtype == at::kFloat || dtype == at::kDouble ||
          dtype == at::kComplexFloat || dtype == at::kComplexDouble ||
          (at::isIntegralType(dtype, /*includeBool=*/true) && !at::isBarebonesUnsignedType(dtype)),
      op, ": not implemented for dtype ", dtype, " on CPU");
}

at::Tensor square_cpu(const at::Tensor& self) {
  check_dtype("torchsquare::square", self.scalar_type());
  // mul has a vectorised half path, which at::square lacks, and at::cpu calls it without dispatch; but it keeps bool.
  return self.scalar_type() == at::kBool ? at::square(self) : at::cpu::mul(self, self);
}

at::Tensor square_backward_cpu(const at::Tensor& grad_output, const at::Tensor& self) {
  check_same_properties(grad_output, self);
  check_dtype("torchsquare::square_backward", self.scalar_type());
  if (self.scalar_type() == at::kBool) return composite::square_backward(grad_output, self);
  if (self.scalar_type() == at::kHalf) {
    // Gradients do reach half's subnormal numbers, where rounding before the doubling loses a bit. addcmul computes in
    // float, without overflow, and rounds once. -0.0 adds nothing, not even to the sign of a zero.
    return at::addcmul(at::scalar_tensor(-0.0, self.options()).expand_as(self), grad_output, self, 2);
  }
  // conj_physical, not conj: under a TorchDispatchMode nothing below would resolve a lazy conjugate.
  const auto product = at::mul(grad_output, at::conj_physical(self));
  // Part by part: for ATen 2 is 2+0i beside complex numbers, and inf in one part would make nan of the other.
  (product.is_complex() ? at::view_as_real(product) : product).mul_(2);
  return product;
}

} // namespace
} // namespace torchsquare

TORCH_LIBRARY_IMPL(torchsquare, CPU, m) {
  m.impl("square", torchsquare::square_cpu);
  m.impl("square_backward", torchsquare::square_backward_cpu);
}
