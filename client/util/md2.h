/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MD2_H
#define MD2_H

/*
 * The MD2 digest of RFC 1319, and HMAC (RFC 2104) with it. It protects no secret
 * here: the runtime expects an answer in this form.
 */

#include <stddef.h>
#include <stdint.h>

#define MD2_BYTES 16

struct md2 {
	uint8_t state[3 * MD2_BYTES];
	uint8_t checksum[MD2_BYTES];
	uint8_t block[MD2_BYTES];
	unsigned n_block;
};

void md2_init(struct md2 *md2);
void md2_add(struct md2 *md2, const void *data, size_t size);
void md2_end(struct md2 *md2, uint8_t ret_digest[MD2_BYTES]);

struct hmac_md2 {
	struct md2 inner;
	uint8_t key[MD2_BYTES];
};

void hmac_md2_init(struct hmac_md2 *hmac, const uint8_t key[MD2_BYTES]);
void hmac_md2_add(struct hmac_md2 *hmac, const void *data, size_t size);
void hmac_md2_end(struct hmac_md2 *hmac, uint8_t ret_digest[MD2_BYTES]);

#endif
