# The kernels for devices: machine code for each architecture that nvcc offers, and PTX for what comes later.
# Gives kernels_definitions and kernels_image, for image.S.
set(TRAINRUN_CUDA AUTO CACHE STRING "kernels for GPUs: AUTO (compiled where nvcc is found), ON, OFF")
set_property(CACHE TRAINRUN_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT TRAINRUN_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TRAINRUN_CUDA=${TRAINRUN_CUDA}: expected AUTO, ON or OFF")
endif()

set(kernels ${CMAKE_CURRENT_LIST_DIR})
set(kernels_image "")
set(kernels_definitions "TRAINRUN_KERNELS_ARCHITECTURES=\"\"")
set(nvcc_flags -std=c++17 -fmad=false -I${CMAKE_SOURCE_DIR} -Wno-deprecated-gpu-targets)

# Sets `architectures`, or `why_not`. A compiler that does not fit this host's is found out here, not in the build.
function(ask_nvcc)
  find_program(TRAINRUN_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT TRAINRUN_NVCC)
    set(why_not "there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${TRAINRUN_NVCC} --list-gpu-arch OUTPUT_VARIABLE listed ERROR_VARIABLE said RESULT_VARIABLE rc)
  string(REGEX MATCHALL "compute_[0-9]+" found "${listed}")
  list(TRANSFORM found REPLACE "compute_" "")
  list(SORT found COMPARE NATURAL)
  if(rc EQUAL 0 AND found AND NOT "${TRAINRUN_NVCC_TRIED}" STREQUAL "${TRAINRUN_NVCC} ${found}")
    list(GET found 0 first)
    execute_process(COMMAND ${TRAINRUN_NVCC} ${nvcc_flags} --fatbin -arch=sm_${first} ${kernels}/convert.cu
                            -o ${CMAKE_CURRENT_BINARY_DIR}/tried.fatbin
                    OUTPUT_VARIABLE listed ERROR_VARIABLE said RESULT_VARIABLE rc)
    if(rc EQUAL 0)
      set(TRAINRUN_NVCC_TRIED "${TRAINRUN_NVCC} ${found}" CACHE INTERNAL "an nvcc that can compile, and for what")
    endif()
  endif()
  if(rc EQUAL 0 AND found)
    set(architectures ${found} PARENT_SCOPE)
  else()
    string(STRIP "${listed}${said}" said)
    set(why_not "${TRAINRUN_NVCC} cannot be used: ${said}" PARENT_SCOPE)
  endif()
endfunction()

if(TRAINRUN_CUDA STREQUAL "OFF")
  set(why_not "TRAINRUN_CUDA=OFF")
else()
  ask_nvcc()
endif()
if(architectures)
  set(codes "")
  foreach(architecture ${architectures})
    list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET architectures -1 newest)
  list(APPEND codes -gencode arch=compute_${newest},code=compute_${newest})
  set(kernels_image ${CMAKE_CURRENT_BINARY_DIR}/kernels.fatbin)
  add_custom_command(
    OUTPUT ${kernels_image}
    COMMAND ${TRAINRUN_NVCC} ${nvcc_flags} --fatbin --threads 2 ${codes} ${kernels}/convert.cu -o ${kernels_image}
    DEPENDS ${kernels}/convert.cu ${kernels}/batch.h ${CMAKE_SOURCE_DIR}/comm/halves.h ${CMAKE_SOURCE_DIR}/comm/elements.h
    COMMENT "Compiling the kernels for devices" VERBATIM)
  list(JOIN architectures " " architectures)
  # NVIDIA's own reader of such files, where it is installed.
  find_program(TRAINRUN_CUOBJDUMP cuobjdump HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(TRAINRUN_CUOBJDUMP)
    add_test(NAME comm.kernels_image COMMAND sh -c "all=$(\"$0\" --list-elf \"$1\"; \"$0\" --list-ptx \"$1\") || exit 1
      for one in $2; do case $all in *.sm_$one.cubin*) ;; *) echo no code for $one in: $all; exit 1 ;; esac; done
      case $all in *.sm_$one.ptx*) ;; *) echo no PTX for $one in: $all; exit 1 ;; esac"
      ${TRAINRUN_CUOBJDUMP} ${kernels_image} ${architectures})
  endif()
  message(STATUS "Kernels for GPUs: ${architectures}")
  set(kernels_definitions "TRAINRUN_KERNELS_FILE=\"${kernels_image}\"" "TRAINRUN_KERNELS_ARCHITECTURES=\"${architectures}\"")
elseif(TRAINRUN_CUDA STREQUAL "ON")
  message(FATAL_ERROR "TRAINRUN_CUDA=ON, and ${why_not}\ntry: CUDA_HOME=/path/to/cuda, or TRAINRUN_CUDA=OFF")
else()
  message(STATUS "Kernels for GPUs: none: ${why_not}")
endif()
