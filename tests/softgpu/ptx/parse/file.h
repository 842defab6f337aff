/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_FILE_H
#define PTX_FILE_H

/*
 * The output of the software GPU's linker: an ELF file for NVIDIA's machine with PTX in
 * the place of code, which every loader accepts as a cubin. A variable in global memory has
 * the same parts as in nvcc's files: a symbol, an initial value, in which relocations fill in
 * addresses of other variables and of functions, and a word of constants that a relocation fills
 * with the address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_FILE_TEXTS ".nv.texts"
#define PTX_FILE_REGISTERS ".nv.registers"
#define PTX_FILE_ADDRESSES ".nv.constant4"
#define PTX_FILE_RELOCATIONS ".rela.nv.constant4"

struct ptx_module;

struct ptx_file_variable {
	const char *name;
	uint64_t size;
	uint32_t align;
	const uint8_t *initial; /* NULL: zeros */
	bool is_managed;
	uint32_t global; /* its number in `module' */
	uint64_t at;     /* for ptx_file_make(): in its section */
};

/*
 * `module': to which the variables belong; NULL without variables. `max_regs': the linker's limit
 * of registers, 0 for no limit. The caller frees. 0 or -ENOMEM.
 */
int ptx_file_make(char *const *texts, size_t n_texts, const struct ptx_module *module,
	struct ptx_file_variable *variables, size_t n_variables, uint32_t max_regs,
	void **ret_image, size_t *ret_size);

/* The bytes of a section; false if no section has that name. */
bool ptx_file_section(
	const void *image, size_t size, const char *name, const uint8_t **ret_at, size_t *ret_size);

#endif
