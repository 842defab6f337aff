/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MD2 against the vectors of RFC 1319, in one piece and byte by byte; HMAC against
 * its definition.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "client/util/md2.h"

static const struct {
	const char *text;
	const char *digest;
} vectors[] = {
	{"", "8350e5a3e24c153df2275c9f80692773"},
	{"a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"},
	{"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
	{"message digest", "ab4f496bfb2a530b219ff33031fe06b0"},
	{"abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"},
	{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
		"da33def2a42df13975352846c30338cd"},
	{"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
		"d5976f79d83d3a0dc9806c3c66f3efd8"},
};

static void assert_digest(const uint8_t digest[MD2_BYTES], const char *expected)
{
	char text[2 * MD2_BYTES + 1];

	for (unsigned i = 0; i < MD2_BYTES; i++)
		snprintf(text + 2 * (size_t)i, 3, "%02x", digest[i]);
	assert_string_equal(text, expected);
}

static void test_vectors(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		uint8_t digest[MD2_BYTES];
		struct md2 md2;

		md2_init(&md2);
		md2_add(&md2, vectors[i].text, strlen(vectors[i].text));
		md2_end(&md2, digest);
		assert_digest(digest, vectors[i].digest);
	}
}

static void test_pieces(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		uint8_t digest[MD2_BYTES];
		struct md2 md2;

		md2_init(&md2);
		for (const char *at = vectors[i].text; *at; at++)
			md2_add(&md2, at, 1);
		md2_end(&md2, digest);
		assert_digest(digest, vectors[i].digest);
	}
}

static void test_hmac(void **state)
{
	static const uint8_t key[] = "sixteen bytes ab";
	uint8_t padded[MD2_BYTES], inner[MD2_BYTES], wanted[MD2_BYTES], digest[MD2_BYTES];
	struct hmac_md2 hmac;
	struct md2 md2;

	(void)state;
	md2_init(&md2);
	for (unsigned i = 0; i < MD2_BYTES; i++)
		padded[i] = key[i] ^ 0x36;
	md2_add(&md2, padded, sizeof(padded));
	md2_add(&md2, "what do ya want", 15);
	md2_end(&md2, inner);
	md2_init(&md2);
	for (unsigned i = 0; i < MD2_BYTES; i++)
		padded[i] = key[i] ^ 0x5c;
	md2_add(&md2, padded, sizeof(padded));
	md2_add(&md2, inner, sizeof(inner));
	md2_end(&md2, wanted);

	hmac_md2_init(&hmac, key);
	hmac_md2_add(&hmac, "what do ", 8);
	hmac_md2_add(&hmac, "ya want", 7);
	hmac_md2_end(&hmac, digest);
	assert_memory_equal(digest, wanted, sizeof(digest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_hmac),
	};

	return cmocka_run_group_tests_name("client_md2", tests, NULL, NULL);
}
