/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: a line of the kernel's log, which may report a fault.
 */

#include <string.h>

#include "../../daemon/text/xid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *line = malloc(size + 1);
	struct xid xid;

	if (!line)
		return 0;
	if (size > 0)
		memcpy(line, data, size);
	line[size] = '\0';
	if (xid_parse(line, &xid) && (xid.pid < 0 || !xid.has_gpu))
		abort();
	(void)xid_is_of(&(struct xid){.has_gpu = true}, line);
	return 0;
}
