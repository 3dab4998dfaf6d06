// AutocastCUDA and its like: under torch.autocast, torch.square gives float32 for half and bfloat16, since it is a pow
// and pow is on these devices' fp32 list; so does square here. Without these keys 300² would be inf in a region where
// torch.square gives 90000. (Autocast on the CPU leaves pow alone. The backward runs outside autocast.)
#include <ATen/autocast_mode.h>
#include <torch/library.h>
#include <torchsquare/square.h>

#define TORCHSQUARE_AUTOCAST_FP32(device, key)                                                       \
  TORCH_LIBRARY_IMPL(torchsquare, key, m) {                                                          \
    using Signature = at::Tensor(const at::Tensor&);                                                 \
    m.impl(                                                                                          \
        "square", &at::autocast::WrapFunction<                                                       \
                      at::autocast::CastPolicy::fp32, c10::DeviceType::device, Signature, Signature, \
                      &torchsquare::square>::type::call);                                            \
  }

TORCHSQUARE_AUTOCAST_FP32(CUDA, AutocastCUDA)
TORCHSQUARE_AUTOCAST_FP32(XPU, AutocastXPU)
TORCHSQUARE_AUTOCAST_FP32(MPS, AutocastMPS)
TORCHSQUARE_AUTOCAST_FP32(MTIA, AutocastMTIA)
TORCHSQUARE_AUTOCAST_FP32(MAIA, AutocastMAIA)
