// Meta: shape, strides and dtype of the results, without data. ATen's own meta kernels know them, so the composite
// serves. Without this key, tracing with tensors on device "meta" would decompose the operators, not record them.
#include <torch/library.h>

#include "common.h"

TORCH_LIBRARY_IMPL(torchsquare, Meta, m) {
  m.impl("square", torchsquare::composite::square);
  m.impl("square_backward", torchsquare::composite::square_backward);
}
