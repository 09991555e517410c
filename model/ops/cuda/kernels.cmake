# Ops with a CUDA implementation: ops/NAME.cpp dispatches to ops/cpu/NAME.cpp or ops/cuda/NAME.cu
# (attention.cpp, which selects our kernels or cuDNN's).
set(trireme_cuda_ops
  activation attention bias cross_entropy direction elementwise embedding float8 head_norm momentum norm
  norm_ratio optimizer strided_copy rope)
# Kernel sources, including shared ones.
set(trireme_cuda_kernels
  ${trireme_cuda_ops}
  attention_backward_fma attention_backward_mma attention_cached attention_fma attention_mma
  attention_own column_sums transpose)
list(REMOVE_ITEM trireme_cuda_kernels attention)
list(TRANSFORM trireme_cuda_ops REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/\\0.cpp")
# Sources with device dispatch.
set(trireme_choosers
  ${trireme_cuda_ops} ${CMAKE_SOURCE_DIR}/model/ops/gemm.cpp)
list(TRANSFORM trireme_cuda_kernels REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/cuda/\\0.cu")
set(attention attention)
if(TRIREME_CUDNN_FRONTEND_INCLUDE)
  list(APPEND attention attention_cudnn attention_graph)
else()
  list(APPEND attention attention_cudnn_absent)
endif()
list(TRANSFORM attention REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/cuda/\\0.cpp")
list(APPEND trireme_cuda_kernels ${attention})
