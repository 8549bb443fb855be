# Each transport back-end is AUTO (built when its library is found), ON (an error when it is not) or OFF.
# Sets TRIMTAB_HAS_<NAME>. What was not built says so at run time (`unavailable`).

set(TRIMTAB_ENABLE_MPI AUTO CACHE STRING "MPI transport: AUTO, ON or OFF")
set_property(CACHE TRIMTAB_ENABLE_MPI PROPERTY STRINGS AUTO ON OFF)

set(TRIMTAB_HAS_MPI FALSE)
if(NOT TRIMTAB_ENABLE_MPI STREQUAL "OFF")
  find_package(MPI COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(TRIMTAB_HAS_MPI TRUE)
  elseif(TRIMTAB_ENABLE_MPI STREQUAL "ON")
    message(FATAL_ERROR "TRIMTAB_ENABLE_MPI=ON, but no MPI was found (Debian: libopenmpi-dev)")
  endif()
endif()
message(STATUS "transport mpi: ${TRIMTAB_HAS_MPI} (TRIMTAB_ENABLE_MPI=${TRIMTAB_ENABLE_MPI})")

set(TRIMTAB_ENABLE_UCX AUTO CACHE STRING "UCX transport: AUTO, ON or OFF")
set_property(CACHE TRIMTAB_ENABLE_UCX PROPERTY STRINGS AUTO ON OFF)

set(TRIMTAB_HAS_UCX FALSE)
if(NOT TRIMTAB_ENABLE_UCX STREQUAL "OFF")
  find_package(UCX 1.13 MODULE)
  if(UCX_FOUND)
    set(TRIMTAB_HAS_UCX TRUE)
  elseif(TRIMTAB_ENABLE_UCX STREQUAL "ON")
    message(FATAL_ERROR "TRIMTAB_ENABLE_UCX=ON, but no UCX >= 1.13 was found (Debian: libucx-dev)")
  endif()
endif()
message(STATUS "transport ucx: ${TRIMTAB_HAS_UCX} (TRIMTAB_ENABLE_UCX=${TRIMTAB_ENABLE_UCX})")
