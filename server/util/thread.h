/* SPDX-License-Identifier: Apache-2.0 */
#ifndef THREAD_H
#define THREAD_H

#include <pthread.h>

/* Starts a thread that receives no signals; the loop receives them. 0 or -errno. */
int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *arg);

#endif
