# Compile through ccache where it is installed and nobody chose another launcher.
find_program(TREK_CCACHE ccache)
mark_as_advanced(TREK_CCACHE)
if(TREK_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TREK_CCACHE})
endif()
