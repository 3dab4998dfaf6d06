// Runs a scripted model and an AOTInductor package, both Y = torch.ops.torchsquare.square(X), and compares with
// at::square. It names nothing of torchsquare: that the library is linked must be enough for the scripted model. (The
// package has Inductor's kernel in it, and not the operator.)
#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/import.h>

#include <iostream>

namespace {

bool check(const char* model, const at::Tensor& x, const at::Tensor& y) {
  const bool equal = at::equal(y, at::square(x));
  std::cout << model << ", " << x.device() << ": " << (equal ? "OK" : "FAILED") << "\n";
  return equal;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: run_models <scripted.pt> <package.pt2, made for the GPU if there is one>\n";
    return 2;
  }
  auto x = at::arange(-3, 4, at::kFloat);
  auto scripted = torch::jit::load(argv[1]);
  bool ok = check("scripted", x, scripted.forward({x}).toTensor());
  if (at::hasCUDA()) {
    x = x.cuda();
    ok &= check("scripted", x, scripted.forward({x}).toTensor());
  }
  torch::inductor::AOTIModelPackageLoader package(argv[2]);
  ok &= check("AOTInductor", x, package.run({x})[0]);
  return ok ? 0 : 1;
}
