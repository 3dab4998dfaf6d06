// FuncTorchBatched: torch.vmap. An elementwise operator is its own batching rule, so the composite, whose ATen
// operators have batching rules, serves as it is. Without this key vmap warns and calls the operator once per sample.
#include <torch/library.h>

#include "common.h"

TORCH_LIBRARY_IMPL(torchsquare, FuncTorchBatched, m) {
  m.impl("square", torchsquare::composite::square);
  m.impl("square_backward", torchsquare::composite::square_backward);
}
