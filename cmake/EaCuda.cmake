# Compiles the CUDA kernels with nvcc if EA_CUDA says so. No other part of the
# build needs a CUDA toolkit.
set(EA_CUDA AUTO CACHE STRING "\
Compile the CUDA kernels into the extension: ON, OFF, or AUTO (ON where nvcc \
12.4 or newer and cublasLt.h are found)")
set_property(CACHE EA_CUDA PROPERTY STRINGS ON OFF AUTO)
set(EA_CUDA_ARCHITECTURES "80;90a" CACHE STRING
    "Targets of the CUDA kernels, as in CMAKE_CUDA_ARCHITECTURES")

# ea_no_cuda(text...): with AUTO the build continues without the kernels, otherwise
# it fails with this text.
macro(ea_no_cuda)
  set(EA_WITH_CUDA OFF)
  if(NOT EA_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR ${ARGN})
  endif()
endmacro()

set(EA_WITH_CUDA ${EA_CUDA})
set(EA_NVCC ${CMAKE_CUDA_COMPILER})
if(EA_WITH_CUDA AND NOT EA_NVCC)
  unset(EA_NVCC)
  find_program(EA_NVCC nvcc PATHS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
               PATH_SUFFIXES bin)
  if(EA_NVCC)
    set(ENV{CUDACXX} ${EA_NVCC})
  else()
    ea_no_cuda("EA_CUDA=ON needs nvcc 12.4 or newer, which is neither on PATH "
      "nor below CUDA_HOME, CUDA_PATH or /usr/local/cuda. Point "
      "CMAKE_CUDA_COMPILER at one, or set EA_CUDA=OFF.")
  endif()
endif()
# cublasLt.h comes from the toolkit or from the nvidia-cublas package. It is
# searched first, because trying the compiler takes seconds.
if(EA_WITH_CUDA)
  get_filename_component(EA_CUDA_HOME ${EA_NVCC} REALPATH)
  get_filename_component(EA_CUDA_HOME ${EA_CUDA_HOME}/../.. ABSOLUTE)
  set(EA_CUBLAS_PLACES "")
  foreach(home IN ITEMS ${EA_CUDA_HOME} $ENV{CUDA_HOME} /usr/local/cuda)
    list(APPEND EA_CUBLAS_PLACES ${home}/include
         ${home}/targets/x86_64-linux/include)
  endforeach()
  foreach(site IN LISTS EA_SITE_PACKAGES)
    list(APPEND EA_CUBLAS_PLACES ${site}/nvidia/cu13/include
         ${site}/nvidia/cublas/include)
  endforeach()
  find_path(EA_CUBLAS_INCLUDE cublasLt.h PATHS ${EA_CUBLAS_PLACES}
            NO_DEFAULT_PATH)
  if(NOT EA_CUBLAS_INCLUDE)
    ea_no_cuda("EA_CUDA=ON needs cublasLt.h, which is in none of: "
      "${EA_CUBLAS_PLACES}. pip install nvidia-cublas into the environment of "
      "the build, or set EA_CUDA=OFF.")
  endif()
endif()
if(EA_WITH_CUDA AND EA_CUDA STREQUAL "AUTO" AND NOT CMAKE_CUDA_COMPILER)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(EA_WITH_CUDA OFF)
  endif()
endif()
if(EA_WITH_CUDA)
  set(EA_WITH_CUDA ON)
  set(CMAKE_CUDA_ARCHITECTURES ${EA_CUDA_ARCHITECTURES})
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
    ea_no_cuda("EA_CUDA=ON needs nvcc 12.4 or newer; ${CMAKE_CUDA_COMPILER} is "
      "${CMAKE_CUDA_COMPILER_VERSION}. Point CMAKE_CUDA_COMPILER at another, "
      "or set EA_CUDA=OFF.")
  endif()
endif()
message(STATUS "CUDA kernels: ${EA_WITH_CUDA} (EA_CUDA=${EA_CUDA})")

# ea_cuda_room(): builds the sources of kernels/cuda as the object library
# ea_kernels_cuda, linked into the extension like any other room.
function(ea_cuda_room)
  set(room ${EA_SOURCE_ROOT}/kernels/cuda)
  file(GLOB sources CONFIGURE_DEPENDS ${room}/*.cu ${room}/*.cpp)
  add_library(ea_kernels_cuda OBJECT ${sources})
  ea_visible_rooms(view ea_kernels_cuda kernels tensor runtime)
  target_include_directories(ea_kernels_cuda PRIVATE ${view})
  target_include_directories(ea_kernels_cuda SYSTEM PRIVATE
    ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} ${EA_CUBLAS_INCLUDE})
  # Warnings are errors here: no other step of CI compiles these sources with nvcc.
  target_compile_options(ea_kernels_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${EA_COMPILE_OPTIONS}>
    $<$<COMPILE_LANGUAGE:CUDA>:-O3 --Werror=all-warnings
      --extended-lambda --expt-relaxed-constexpr
      -Xcompiler=-Wall,-fvisibility=hidden>)
  string(REPLACE ";" "," architectures "${EA_CUDA_ARCHITECTURES}")
  target_compile_definitions(ea_kernels_cuda PRIVATE
                             EA_CUDA_ARCHITECTURES="${architectures}")
  set(EA_ROOMS ${EA_ROOMS} ea_kernels_cuda CACHE INTERNAL "")
endfunction()
