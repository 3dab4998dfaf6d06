// CompositeImplicitAutograd: the operators in terms of ATen's. They serve every backend without a kernel of its own
// (MPS, XPU, sparse, DTensor, ...), and Inductor, which decomposes and fuses them. Without this key the operators would
// exist on CPU and CUDA alone, and each would be a fusion barrier in compiled code.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "common.h"

namespace torchsquare::composite {

// Not at::mul(self, self), which keeps bool, and squares DTensor's partial sums before they are reduced.
at::Tensor square(const at::Tensor& self) {
  return at::square(self);
}

at::Tensor square_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  check_same_properties(grad_output, self);
  // No lazy conj, an assert under batched forward-mode AD; no conj_physical, a loop under vmap, non-linear to DTensor.
  const auto conj = self.is_complex() ? at::complex(at::real(self), at::neg(at::imag(self))) : self;
  return at::mul(at::mul(grad_output, conj), 2);
}

} // namespace torchsquare::composite

TORCH_LIBRARY_IMPL(torchsquare, CompositeImplicitAutograd, m) {
  m.impl("square", torchsquare::composite::square);
  m.impl("square_backward", torchsquare::composite::square_backward);
}
