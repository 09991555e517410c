# Sources of ops with a CUDA implementation, found by their names: ops/NAME.cpp dispatches to
# ops/cpu/NAME.cpp or ops/cuda/NAME.cu; attention and products to ops/cuda/NAME.cpp, which selects a
# library's kernels or ours.
file(GLOB trireme_cuda_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/model/ops/cuda/*.cu)
# Sources with device dispatch.
set(trireme_choosers attention gemm part_attention)
list(TRANSFORM trireme_choosers REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/\\0.cpp")
foreach(kernels ${trireme_cuda_kernels})
  get_filename_component(name ${kernels} NAME_WE)
  if(EXISTS ${CMAKE_SOURCE_DIR}/model/ops/${name}.cpp)
    list(APPEND trireme_choosers ${CMAKE_SOURCE_DIR}/model/ops/${name}.cpp)
  endif()
endforeach()
list(REMOVE_DUPLICATES trireme_choosers)
list(SORT trireme_choosers)
set(attention attention)
if(TRIREME_CUDNN_FRONTEND_INCLUDE)
  list(APPEND attention attention_cudnn attention_graph)
else()
  list(APPEND attention attention_cudnn_absent)
endif()
list(TRANSFORM attention REPLACE ".+" "${CMAKE_SOURCE_DIR}/model/ops/cuda/\\0.cpp")
list(APPEND trireme_cuda_kernels ${attention})
