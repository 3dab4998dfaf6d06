// Meta: shape, strides and dtype of the results, without data. ATen's own meta kernels know them, so the composite
// serves. Without this key tensors on device "meta" would count as a backend that the operators were not written for,
// and tracing with them would decompose the operators instead of recording them.
#include <torch/library.h>

#include "common.h"

TORCH_LIBRARY_IMPL(torchsquare, Meta, m) {
  m.impl("square", torchsquare::composite::square);
  m.impl("square_backward", torchsquare::composite::square_backward);
}
