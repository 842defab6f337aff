/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the answers of proc_address() with the driver's (tests/proto/
 * proc-addresses-580.tsv): every name, at and around every version, with every flag.
 * The symbols themselves are stand-ins.
 */

#include <stdio.h>
#include <string.h>

#include "base.h"
#include "procs.h"

/* The driver's names, for the linker: only their addresses matter here. */
#define SYMBOL(name) char stand_in_##name __asm__(#name);
#include "symbols.h"
#undef SYMBOL

static const struct {
	const char *name;
	void *address;
} symbols[] = {
#define SYMBOL(name) {#name, &stand_in_##name},
#include "symbols.h"
#undef SYMBOL
};

#define VERSIONS_MAX 8
#define LINE_MAX_BYTES 1024

/* One column of a line: symbols from versions on. */
struct answers {
	unsigned n;
	int version[VERSIONS_MAX];
	char symbol[VERSIONS_MAX][128];
};

static unsigned n_passed, n_failed;
static unsigned n_wrong; /* of the current name */

static void expect(bool is_so, const char *name, int version, uint64_t flags, const char *what)
{
	if (is_so)
		return;
	n_wrong++;
	printf("%s at %d with flags %llu: %s\n", name, version, (unsigned long long)flags, what);
}

static void *address_of(const char *symbol)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!strcmp(symbols[i].name, symbol))
			return symbols[i].address;
	printf("no symbol %s\n", symbol);
	n_wrong++;
	return NULL;
}

/* Each name is a test. */
static void name_end(void)
{
	if (n_wrong > 0)
		n_failed++;
	else
		n_passed++;
	n_wrong = 0;
}

static void read_answers(const char *text, struct answers *answers)
{
	int used = 0;

	answers->n = 0;
	while (answers->n < VERSIONS_MAX &&
		sscanf(text, "%d:%127s%n", &answers->version[answers->n],
			answers->symbol[answers->n], &used) == 2) {
		answers->n++;
		text += used;
	}
}

static void *expected(const struct answers *answers, int version)
{
	void *address = NULL;

	for (unsigned i = 0; i < answers->n; i++)
		if (answers->version[i] <= version)
			address = address_of(answers->symbol[i]);
	return address;
}

static void check_one(const char *name, const struct answers *answers, int version, uint64_t flags)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
	void *pfn = &status, *again = &status;
	CUresult result = proc_address(name, &pfn, version, flags, &status);

	if (version > CUDA_VERSION) {
		expect(result == CUDA_ERROR_INVALID_VALUE, name, version, flags, "not refused");
		expect(status == 77, name, version, flags, "status touched");
		return;
	}
	expect(result == CUDA_SUCCESS, name, version, flags, "refused");
	expect(pfn == expected(answers, version), name, version, flags, "another symbol");
	if (pfn)
		expect(status == CU_GET_PROC_ADDRESS_SUCCESS, name, version, flags, "status");
	else if (answers->n > 0)
		expect(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, name, version, flags,
			"status of an old version");
	else
		expect(status != CU_GET_PROC_ADDRESS_SUCCESS, name, version, flags,
			"status of nothing");
	expect(proc_address(name, &again, version, flags, NULL) == CUDA_SUCCESS && again == pfn,
		name, version, flags, "other without a status");
}

static void check_column(const char *name, const struct answers *answers, uint64_t flags)
{
	static const int others[] = {-1, 0, 1, 2000, 7000, 12000, 12999, 13000, 13001, 0x7fffffff};

	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		check_one(name, answers, others[i], flags);
	for (unsigned i = 0; i < answers->n; i++)
		for (int around = -1; around <= 1; around++)
			check_one(name, answers, answers->version[i] + around, flags);
}

static void check_line(char *line)
{
	struct answers plain, per_thread;
	char *name, *first, *second;

	line[strcspn(line, "\n")] = '\0';
	name = strsep(&line, "\t");
	first = strsep(&line, "\t");
	second = line;
	if (!first || !second) {
		expect(false, name, 0, 0, "a line without three columns");
		return;
	}
	read_answers(first, &plain);
	read_answers(strcmp(second, "same") ? second : first, &per_thread);
	check_column(name, &plain, CU_GET_PROC_ADDRESS_DEFAULT);
	check_column(name, &plain, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
	check_column(name, &per_thread, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

static void check_odd(void)
{
	static const char *const names[] = {
		"", "cu", "cuInit_v2", "cuMemAlloc_v2", "cuEventRecord_ptsz", "cuInitt", "zzz"};
	CUdriverProcAddressQueryResult status;
	void *pfn;

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		pfn = &status;
		expect(proc_address(names[i], &pfn, 13000, 0, &status) == CUDA_SUCCESS && !pfn &&
				status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
			names[i], 13000, 0, "is no name");
	}
	expect(proc_address(NULL, &pfn, 13000, 0, NULL) == CUDA_ERROR_INVALID_VALUE, "NULL", 0, 0,
		"not refused");
	expect(proc_address("cuInit", NULL, 13000, 0, NULL) == CUDA_ERROR_INVALID_VALUE, "cuInit",
		0, 0, "no place for the answer");
	expect(proc_address("cuInit", &pfn, 13000, 3, NULL) == CUDA_ERROR_INVALID_VALUE, "cuInit",
		0, 3, "unknown flags");
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "tests/proto/proc-addresses-580.tsv";
	char line[LINE_MAX_BYTES];
	unsigned n_names = 0;
	FILE *file = fopen(path, "r");

	if (!file) {
		printf("%s: %s\n0 passed, 1 failed\n", path, strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#')
			continue;
		n_names++;
		check_line(line);
		name_end();
	}
	fclose(file);
	check_odd();
	name_end();
	expect(n_names == 479, "names in the table", 0, 0, "not 479");
	name_end();
	printf("%u passed, %u failed\n", n_passed, n_failed);
	return n_failed > 0;
}
