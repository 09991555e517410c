# cuDNN's frontend is header-only. Searched in TRIREME_CUDNN_FRONTEND_INCLUDE, the system's include
# path, the folder of scripts/setup and Python's packages (PyPI: nvidia-cudnn-frontend); fetched if
# TRIREME_FETCH_CUDNN_FRONTEND is on. Without it the variable is false and attention uses our own
# kernels.
option(TRIREME_FETCH_CUDNN_FRONTEND "Download cuDNN's frontend from GitHub if it is not found" OFF)

find_program(TRIREME_PYTHON3 NAMES python3)
set(python_includes)
if(TRIREME_PYTHON3)
  execute_process(
    COMMAND ${TRIREME_PYTHON3} -c
      "import site, sys; print(';'.join(p + '/include' for p in sys.path + [site.getusersitepackages()] if p))"
    OUTPUT_VARIABLE python_includes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(TRIREME_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CMAKE_SOURCE_DIR}/build/cudnn_frontend/include
    ${python_includes}
  DOC "Folder of cudnn_frontend.h")
if(NOT TRIREME_CUDNN_FRONTEND_INCLUDE AND TRIREME_FETCH_CUDNN_FRONTEND)
  include(FetchContent)
  # A SOURCE_SUBDIR that does not exist: do not run its own build.
  FetchContent_Declare(cudnn_frontend
    URL https://github.com/NVIDIA/cudnn-frontend/archive/refs/tags/v1.32.0.tar.gz
    DOWNLOAD_EXTRACT_TIMESTAMP OFF SOURCE_SUBDIR headers_only)
  FetchContent_MakeAvailable(cudnn_frontend)
  set(TRIREME_CUDNN_FRONTEND_INCLUDE ${cudnn_frontend_SOURCE_DIR}/include)
endif()
if(TRIREME_CUDNN_FRONTEND_INCLUDE)
  message(STATUS "Attention by cuDNN: frontend in ${TRIREME_CUDNN_FRONTEND_INCLUDE}")
else()
  message(STATUS "Attention by our own kernels: cuDNN's frontend is not found")
endif()
