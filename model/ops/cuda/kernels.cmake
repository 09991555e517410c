# The ops that run on CUDA: ops/NAME.cpp chooses between ops/cpu/NAME.cpp and ops/cuda/NAME.cu.
set(trireme_cuda_ops
  activation attention bias cross_entropy direction elementwise embedding head_norm momentum norm
  norm_ratio optimizer placed rope)
# Their kernels' sources, those that several ops share included.
set(trireme_cuda_kernels
  ${trireme_cuda_ops}
  attention_backward_fma attention_backward_mma attention_cached attention_fma attention_mma
  column_sums)
list(TRANSFORM trireme_cuda_ops REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/\\0.cpp")
list(TRANSFORM trireme_cuda_kernels REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/cuda/\\0.cu")
