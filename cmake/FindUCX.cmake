# Debian's ucx-config.cmake names no include directory that needs one; what is looked for here is the ucp library
# and its header, as any installation has them. Defines the target UCX::ucp.
find_path(UCX_INCLUDE_DIR ucp/api/ucp.h)
find_library(UCX_UCP_LIBRARY ucp)
find_library(UCX_UCS_LIBRARY ucs)
if(UCX_INCLUDE_DIR)
  file(STRINGS ${UCX_INCLUDE_DIR}/ucp/api/ucp_version.h version_lines REGEX "UCP_API_(MAJOR|MINOR)")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" UCX_VERSION "${version_lines}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(UCX
  REQUIRED_VARS UCX_UCP_LIBRARY UCX_UCS_LIBRARY UCX_INCLUDE_DIR
  VERSION_VAR UCX_VERSION)
if(UCX_FOUND AND NOT TARGET UCX::ucp)
  add_library(UCX::ucp UNKNOWN IMPORTED)
  set_target_properties(UCX::ucp PROPERTIES
    IMPORTED_LOCATION ${UCX_UCP_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${UCX_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES ${UCX_UCS_LIBRARY})
endif()
mark_as_advanced(UCX_INCLUDE_DIR UCX_UCP_LIBRARY UCX_UCS_LIBRARY)
