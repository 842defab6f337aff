/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's environment variables, and the environment of a server.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

#include <cmocka.h>

static struct config config;
static struct error_message error;

static int set_up(_unused_ void **state)
{
	clearenv();
	return 0;
}

static void test_defaults(_unused_ void **state)
{
	assert_int_equal(config_load(&config, &error), 0);
	assert_string_equal(config.pipe_directory, "/tmp/nvidia-mps");
	assert_string_equal(config.log_directory, "/var/log/nvidia-mps");
	assert_string_equal(config.socket_path, "/tmp/nvidia-mps/control");
	assert_int_equal(config.grace_ms, 10000);
	assert_int_equal(config.idle_s, 3600);
	assert_int_equal(config.servers_max, 64);
	assert_int_equal(config.log_max_mib, 100);
	/* An empty variable counts as not set. */
	setenv("CUDA_MPS_PIPE_DIRECTORY", "", 1);
	setenv("MPS_GRACE_MS", "", 1);
	assert_int_equal(config_load(&config, &error), 0);
	assert_string_equal(config.pipe_directory, "/tmp/nvidia-mps");
	assert_int_equal(config.grace_ms, 10000);
}

static void test_paths(_unused_ void **state)
{
	char here[PATH_MAX], wanted[PATH_MAX + 16];

	assert_non_null(getcwd(here, sizeof(here)));
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps//", 1);
	setenv("CUDA_MPS_LOG_DIRECTORY", "log/", 1);
	assert_int_equal(config_load(&config, &error), 0);
	assert_string_equal(config.pipe_directory, "/run/mps");
	assert_string_equal(config.socket_path, "/run/mps/control");
	snprintf(wanted, sizeof(wanted), "%s/log", here);
	assert_string_equal(config.log_directory, wanted);
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/", 1);
	assert_int_equal(config_load(&config, &error), 0);
	assert_string_equal(config.pipe_directory, "/");
}

static void test_path_length(_unused_ void **state)
{
	char path[PATH_MAX + 10];

	memset(path, 'd', sizeof(path));
	path[0] = '/';
	path[SOCKET_PATH_MAX - strlen("/control")] = '\0';
	setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
	assert_int_equal(config_load(&config, &error), 0);
	assert_int_equal(strlen(config.socket_path), SOCKET_PATH_MAX);
	path[strlen(path)] = 'd';
	path[SOCKET_PATH_MAX - strlen("/control") + 1] = '\0';
	setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
	assert_int_equal(config_load(&config, &error), -ENAMETOOLONG);
	assert_non_null(strstr(error.text, "has 108 bytes"));
	assert_non_null(strstr(error.text, "107"));
	memset(path, 'd', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
	assert_int_equal(config_load(&config, &error), -ENAMETOOLONG);
	assert_non_null(strstr(error.text, "CUDA_MPS_PIPE_DIRECTORY"));
}

static void test_grace(_unused_ void **state)
{
	static const char *const bad[] = {"-1", "soon", "1.5", "3600001", "99999999999999999999"};

	setenv("MPS_GRACE_MS", "250", 1);
	assert_int_equal(config_load(&config, &error), 0);
	assert_int_equal(config.grace_ms, 250);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		setenv("MPS_GRACE_MS", bad[i], 1);
		assert_int_equal(config_load(&config, &error), -EINVAL);
		assert_non_null(strstr(error.text, bad[i]));
		assert_non_null(strstr(error.text, "MPS_GRACE_MS"));
	}
}

static void test_numbers(_unused_ void **state)
{
	setenv("MPS_SERVERS_MAX", "1", 1);
	setenv("MPS_IDLE_S", "0", 1);
	assert_int_equal(config_load(&config, &error), 0);
	assert_int_equal(config.servers_max, 1);
	assert_int_equal(config.idle_s, 0);
	setenv("MPS_SERVERS_MAX", "0", 1);
	assert_int_equal(config_load(&config, &error), -EINVAL);
	assert_string_equal(
		error.text, "MPS_SERVERS_MAX is \"0\": it takes servers, a number from 1 to 4096");
}

/* The value that a server would get, or NULL. */
static const char *value_of(char **environment, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; environment[i]; i++)
		if (strncmp(environment[i], name, length) == 0 && environment[i][length] == '=')
			return environment[i] + length + 1;
	return NULL;
}

static void test_server_environment(_unused_ void **state)
{
	char **environment;

	setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps/", 1);
	setenv("CUDA_MPS_LOG_DIRECTORY", "/run/log", 1);
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1);
	setenv("LD_PRELOAD", "/lib/evil.so", 1);
	setenv("SECRET", "1", 1);
	setenv("MINE", "two", 1);
	setenv("MPS_SERVER_ENV", ",MINE,LD_PRELOAD,,ABSENT,", 1);
	assert_int_equal(config_load(&config, &error), 0);
	environment = config_environment(&config);
	assert_non_null(environment);
	assert_string_equal(value_of(environment, "CUDA_MPS_PIPE_DIRECTORY"), "/run/mps");
	assert_string_equal(value_of(environment, "CUDA_VISIBLE_DEVICES"), "");
	assert_string_equal(value_of(environment, "CUDA_DEVICE_MAX_CONNECTIONS"), "32");
	assert_string_equal(value_of(environment, "CUDA_MODULE_LOADING"), "LAZY");
	assert_string_equal(value_of(environment, "MINE"), "two");
	assert_null(value_of(environment, "LD_PRELOAD"));
	assert_null(value_of(environment, "SECRET"));
	assert_null(value_of(environment, "ABSENT"));
	assert_null(value_of(environment, "CUDA_MPS_LOG_DIRECTORY"));
	assert_null(value_of(environment, "MPS_SERVER_ENV"));
	config_environment_free(environment);
	config_environment_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_defaults, set_up),
		cmocka_unit_test_setup(test_paths, set_up),
		cmocka_unit_test_setup(test_path_length, set_up),
		cmocka_unit_test_setup(test_grace, set_up),
		cmocka_unit_test_setup(test_numbers, set_up),
		cmocka_unit_test_setup(test_server_environment, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
