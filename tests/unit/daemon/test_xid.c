/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines of the kernel's log about faults: complete lines, cut lines, and random bytes.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/xid.h"
#include "tests/unit/seed.h"

#define LINE                                                                                       \
	"6,1234,5678901,-;NVRM: Xid (PCI:0000:06:00): 31, pid=4711, name=mps-server, "             \
	"channel 0x00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 "            \
	"faulted @ 0x2001_40000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"

#define RANDOM_LINES 20000

static void test_whole(_unused_ void **state)
{
	struct xid xid;

	assert_true(xid_parse(LINE, &xid));
	assert_int_equal(xid.number, 31);
	assert_int_equal(xid.pid, 4711);
	assert_true(xid.is_server);
	assert_true(xid.address == 0x200140000000);
	assert_true(xid_is_of(&xid, "0000:06:00.0"));
	assert_true(xid_is_of(&xid, "00000000:06:00.0"));
	assert_false(xid_is_of(&xid, "0000:07:00.0"));
	assert_false(xid_is_of(&xid, "0001:06:00.0"));
	assert_false(xid_is_of(&xid, "0000:06"));
	assert_false(xid_is_of(&xid, ""));
}

/* The format of dmesg, and of an older driver. */
static void test_other_shapes(_unused_ void **state)
{
	struct xid xid;

	assert_true(xid_parse("NVRM: Xid (PCI:0000:C1:00.0): 31, pid='<unknown>', name=<unknown>, "
			      "Ch 00000012, MMU Fault: ENGINE GRAPHICS faulted @ 0x7F12_0000ABCD.",
		&xid));
	assert_int_equal(xid.pid, 0);
	assert_false(xid.is_server);
	assert_true(xid.address == 0x7f120000abcd);
	assert_true(xid_is_of(&xid, "0000:c1:00.0"));
	assert_true(xid_parse("NVRM: Xid (PCI:0000:06:00): 13, pid=7, name=python, Graphics "
			      "Exception: ESR 0x504648=0x10",
		&xid));
	assert_int_equal(xid.number, 13);
	assert_int_equal(xid.pid, 7);
	assert_true(xid.address == 0);
}

static void test_other_lines(_unused_ void **state)
{
	static const char *const lines[] = {"", "6,1,2,-;usb 1-1: new device", "NVRM: Xid",
		"NVRM: Xid (PCI:", "NVRM: Xid (PCI:zz:00:00): 31",
		"NVRM: Xid (PCI:0000:06): 31, pid=4711", "NVRM: Xid (PCI:0000:06:00) 31, pid=4711",
		"NVRM: Xid (PCI:0000:06:00): , pid=4711", "NVRM: Xid (PCI:0000:123:00): 31",
		"NVRM: Xid (PCI:123456789:06:00): 31"};
	struct xid xid;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (xid_parse(lines[i], &xid))
			fail_msg("taken: %s", lines[i]);
}

/* Numbers that are too long. */
static void test_numbers(_unused_ void **state)
{
	struct xid xid;

	assert_true(xid_parse("NVRM: Xid (PCI:0000:06:00): 31, pid=99999999999, name=x, faulted @ "
			      "0x123456789_00000000",
		&xid));
	assert_int_equal(xid.pid, 0);
	assert_true(xid.address == 0);
	assert_true(xid_parse("NVRM: Xid (PCI:0000:06:00): 31, pid=-1, faulted @ 0x12", &xid));
	assert_int_equal(xid.pid, 0);
	assert_true(xid.address == 0);
}

/* Each in memory of exactly its size, so that a sanitizer sees a read past its end. */
static bool parse_copy(const char *line, size_t size, struct xid *ret_xid)
{
	_cleanup_free_ char *copy = malloc(size + 1);

	assert_non_null(copy);
	memcpy(copy, line, size);
	copy[size] = '\0';
	return xid_parse(copy, ret_xid);
}

static void test_cut(_unused_ void **state)
{
	struct xid xid;

	for (size_t size = 0; size < sizeof(LINE); size++)
		if (parse_copy(LINE, size, &xid)) {
			assert_true(xid.pid == 0 || xid.pid <= 4711);
			assert_int_equal(xid.bus, 6);
		}
}

static void test_any_bytes(_unused_ void **state)
{
	struct xid xid;
	char line[sizeof(LINE)];

	for (unsigned i = 0; i < RANDOM_LINES; i++) {
		memcpy(line, LINE, sizeof(LINE));
		for (unsigned n = (unsigned)rand() % 8; n > 0; n--)
			line[(size_t)rand() % (sizeof(LINE) - 1)] = (char)rand();
		if (parse_copy(line, (size_t)rand() % sizeof(LINE), &xid))
			assert_true(xid.pid >= 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_other_shapes),
		cmocka_unit_test(test_other_lines),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_any_bytes),
	};

	srand(seed_read(31));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
