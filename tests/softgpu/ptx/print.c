/* SPDX-License-Identifier: Apache-2.0 */

/*
 * printf and assert of kernels. Runs on the thread that runs the kernel. The format
 * and its arguments belong to the program: each byte is read like by a load of the
 * kernel. The host's printf gets only forms that were parsed here.
 */

#include <stdio.h>
#include <string.h>

#include "base.h"
#include "memory.h"
#include "warp.h"

#define TEXT_MAX 8192u
#define FORM_MAX 32u

struct printer {
	struct ptx_warp *warp;
	unsigned lane;
	uint64_t format; /* the rest of it */
	uint64_t args;   /* the address of the next argument, before alignment */
	int n_args;
	char text[TEXT_MAX];
	size_t len;
};

/* A character of the format; 0 also after a fault. */
static char read_char(const struct printer *printer, uint64_t addr)
{
	const char *p = ptx_at_generic(printer->warp, printer->lane, addr, 1, false);

	if (!p)
		return '\0';
	return *p;
}

static uint64_t read_arg(struct printer *printer, uint32_t size)
{
	uint64_t addr = ALIGN_UP(printer->args, (uint64_t)size), value = 0;
	const void *p = ptx_at_generic(printer->warp, printer->lane, addr, size, false);

	if (p)
		memcpy(&value, p, size);
	printer->args = addr + size;
	printer->n_args++;
	return value;
}

static void put(struct printer *printer, const char *text, size_t len)
{
	len = MIN(len, sizeof(printer->text) - printer->len);
	memcpy(printer->text + printer->len, text, len);
	printer->len += len;
}

static void put_string(struct printer *printer, const char *form, uint64_t addr)
{
	char text[TEXT_MAX], padded[TEXT_MAX];
	size_t len = 0;
	int n;

	while (addr && len < sizeof(text) - 1 && (text[len] = read_char(printer, addr + len)))
		len++;
	text[len] = '\0';
	n = snprintf(padded, sizeof(padded), form, addr ? text : "(null)");
	if (n > 0)
		put(printer, padded, MIN((size_t)n, sizeof(padded) - 1));
}

/* One conversion: its flags, width and precision as text, its length, its letter. */
struct conversion {
	char form[FORM_MAX]; /* "%-8.3" */
	size_t len;
	bool is_long;
	char letter;
};

static void conversion_add(struct conversion *conversion, const char *text)
{
	size_t len = strlen(text);

	if (conversion->len + len + 4 < sizeof(conversion->form)) {
		memcpy(conversion->form + conversion->len, text, len + 1);
		conversion->len += len;
	}
}

static struct conversion read_conversion(struct printer *printer)
{
	struct conversion conversion = {.form = "%", .len = 1};

	for (;;) {
		char c = read_char(printer, printer->format);
		char text[16] = {c};

		if (!c)
			return conversion;
		printer->format++;
		if (c == '*') {
			snprintf(text, sizeof(text), "%d", (int)(uint32_t)read_arg(printer, 4));
			conversion_add(&conversion, text);
		} else if (strchr("-+ #0123456789.", c)) {
			conversion_add(&conversion, text);
		} else if (strchr("lzjtL", c)) {
			conversion.is_long = true;
		} else if (c != 'h') {
			conversion.letter = c;
			return conversion;
		}
	}
}

/* `spec' has the length and the letter for the host. */
#define PUT(spec, value)                                                                           \
	do {                                                                                       \
		char out_[512];                                                                    \
		int n_;                                                                            \
		conversion_add(conversion, spec);                                                  \
		n_ = snprintf(out_, sizeof(out_), conversion->form, value);                        \
		put(printer, out_, n_ < 0 ? 0 : MIN((size_t)n_, sizeof(out_) - 1));                \
	} while (0)

static void put_integer(struct printer *printer, struct conversion *conversion)
{
	char spec[] = {'l', 'l', conversion->letter, '\0'};
	bool is_signed = conversion->letter == 'd' || conversion->letter == 'i';
	uint64_t value = read_arg(printer, conversion->is_long ? 8 : 4);

	if (is_signed && !conversion->is_long)
		value = (uint64_t)(int64_t)(int32_t)value;
	PUT(spec, (unsigned long long)value);
}

static void put_double(struct printer *printer, struct conversion *conversion)
{
	char spec[] = {conversion->letter, '\0'};
	uint64_t bits = read_arg(printer, 8);
	double value;

	memcpy(&value, &bits, sizeof(value));
	PUT(spec, value);
}

static void put_conversion(struct printer *printer, struct conversion *conversion)
{
	char letter = conversion->letter;

	if (letter == '\0')
		return;
	if (strchr("diouxX", letter)) {
		put_integer(printer, conversion);
	} else if (strchr("eEfFgGaA", letter)) {
		put_double(printer, conversion);
	} else if (letter == 'c') {
		PUT("c", (int)(uint32_t)read_arg(printer, 4));
	} else if (letter == 'p') {
		PUT("p", (void *)(uintptr_t)read_arg(printer, 8));
	} else if (letter == 's') {
		conversion_add(conversion, "s");
		put_string(printer, conversion->form, read_arg(printer, 8));
	} else {
		put(printer, &letter, 1);
	}
}

static void send(const struct ptx_warp *warp, const char *text, size_t len)
{
	const struct ptx_launch *launch = warp->run->launch;

	if (launch->print && warp->run->fault.kind == PTX_FAULT_NONE)
		launch->print(launch->user, text, len);
}

int ptx_print(struct ptx_warp *warp, unsigned lane, uint64_t format, uint64_t args)
{
	struct printer printer = {.warp = warp, .lane = lane, .format = format, .args = args};
	char c;

	if (!format)
		return -1;
	while ((c = read_char(&printer, printer.format))) {
		struct conversion conversion;

		printer.format++;
		if (c != '%') {
			put(&printer, &c, 1);
			continue;
		}
		conversion = read_conversion(&printer);
		put_conversion(&printer, &conversion);
	}
	send(warp, printer.text, printer.len);
	return printer.n_args;
}

static void read_text(struct ptx_warp *warp, unsigned lane, uint64_t addr, char *text, size_t size)
{
	struct printer printer = {.warp = warp, .lane = lane};
	size_t len = 0;

	while (addr && len < size - 1 && (text[len] = read_char(&printer, addr + len)))
		len++;
	text[len] = '\0';
}

void ptx_print_assert(struct ptx_warp *warp, unsigned lane, uint64_t message, uint64_t file,
	uint32_t line, uint64_t function)
{
	const uint32_t *block = warp->block->ctaid;
	char texts[3][512], out[TEXT_MAX];
	int n;

	read_text(warp, lane, message, texts[0], sizeof(texts[0]));
	read_text(warp, lane, file, texts[1], sizeof(texts[1]));
	read_text(warp, lane, function, texts[2], sizeof(texts[2]));
	n = snprintf(out, sizeof(out),
		"%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
		texts[1], line, texts[2], block[0], block[1], block[2], warp->tid[0][lane],
		warp->tid[1][lane], warp->tid[2][lane], texts[0]);
	if (n > 0)
		send(warp, out, MIN((size_t)n, sizeof(out) - 1));
}
