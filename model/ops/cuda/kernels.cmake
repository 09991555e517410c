# The ops that run on CUDA: ops/NAME.cpp chooses between ops/cpu/NAME.cpp and ops/cuda/NAME.cu
# (attention.cpp, which chooses between our kernels and cuDNN's).
set(trireme_cuda_ops
  activation attention bias cross_entropy direction elementwise embedding float8 head_norm momentum norm
  norm_ratio optimizer placed rope)
# Their kernels' sources, those that several ops share included.
set(trireme_cuda_kernels
  ${trireme_cuda_ops}
  attention_backward_fma attention_backward_mma attention_cached attention_fma attention_mma
  attention_own column_sums transpose)
list(REMOVE_ITEM trireme_cuda_kernels attention)
list(TRANSFORM trireme_cuda_ops REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/\\0.cpp")
# What chooses between the devices.
set(trireme_choosers
  ${trireme_cuda_ops} ${CMAKE_SOURCE_DIR}/model/ops/gemm.cpp ${CMAKE_SOURCE_DIR}/model/ops/gemm_float8.cpp)
list(TRANSFORM trireme_cuda_kernels REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/cuda/\\0.cu")
set(attention attention)
if(TRIREME_CUDNN_FRONTEND_INCLUDE)
  list(APPEND attention attention_cudnn attention_graph)
else()
  list(APPEND attention attention_cudnn_absent)
endif()
list(TRANSFORM attention REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/cuda/\\0.cpp")
list(APPEND trireme_cuda_kernels ${attention})
