/* SPDX-License-Identifier: Apache-2.0 */
#include <GL/gl.h>
/**
 * \defgroup SMALL_GL Pictures
 */
CUresult CUDAAPI cuGLInit(GLuint buffer);
