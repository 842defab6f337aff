/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's environment variables, and the environment of a server.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/config/config.h"

static struct config config;
static struct error_message error;

static int set_up(_unused_ void **state)
{
	clearenv();
	return 0;
}

static void test_defaults(_unused_ void **state)
{
	assert_int_equal(config_load(&config, NULL, &error), 0);
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
	assert_int_equal(config_load(&config, NULL, &error), 0);
	assert_string_equal(config.pipe_directory, "/tmp/nvidia-mps");
	assert_int_equal(config.grace_ms, 10000);
}

static void test_paths(_unused_ void **state)
{
	char here[PATH_MAX], wanted[PATH_MAX + 16];

	assert_non_null(getcwd(here, sizeof(here)));
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps//", 1);
	setenv("CUDA_MPS_LOG_DIRECTORY", "log/", 1);
	assert_int_equal(config_load(&config, NULL, &error), 0);
	assert_string_equal(config.pipe_directory, "/run/mps");
	assert_string_equal(config.socket_path, "/run/mps/control");
	snprintf(wanted, sizeof(wanted), "%s/log", here);
	assert_string_equal(config.log_directory, wanted);
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/", 1);
	assert_int_equal(config_load(&config, NULL, &error), 0);
	assert_string_equal(config.pipe_directory, "/");
}

static void test_path_length(_unused_ void **state)
{
	char path[PATH_MAX + 10];

	memset(path, 'd', sizeof(path));
	path[0] = '/';
	path[SOCKET_PATH_MAX - strlen("/control")] = '\0';
	setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
	assert_int_equal(config_load(&config, NULL, &error), 0);
	assert_int_equal(strlen(config.socket_path), SOCKET_PATH_MAX);
	path[strlen(path)] = 'd';
	path[SOCKET_PATH_MAX - strlen("/control") + 1] = '\0';
	setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
	assert_int_equal(config_load(&config, NULL, &error), -ENAMETOOLONG);
	assert_non_null(strstr(error.text, "has 108 bytes"));
	assert_non_null(strstr(error.text, "107"));
	memset(path, 'd', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
	assert_int_equal(config_load(&config, NULL, &error), -ENAMETOOLONG);
	assert_non_null(strstr(error.text, "CUDA_MPS_PIPE_DIRECTORY"));
}

static void test_grace(_unused_ void **state)
{
	static const char *const bad[] = {"-1", "soon", "1.5", "3600001", "99999999999999999999"};

	setenv("MPS_GRACE_MS", "250", 1);
	assert_int_equal(config_load(&config, NULL, &error), 0);
	assert_int_equal(config.grace_ms, 250);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		setenv("MPS_GRACE_MS", bad[i], 1);
		assert_int_equal(config_load(&config, NULL, &error), -EINVAL);
		assert_non_null(strstr(error.text, bad[i]));
		assert_non_null(strstr(error.text, "MPS_GRACE_MS"));
	}
}

static void test_numbers(_unused_ void **state)
{
	setenv("MPS_SERVERS_MAX", "1", 1);
	setenv("MPS_IDLE_S", "0", 1);
	assert_int_equal(config_load(&config, NULL, &error), 0);
	assert_int_equal(config.servers_max, 1);
	assert_int_equal(config.idle_s, 0);
	setenv("MPS_SERVERS_MAX", "0", 1);
	assert_int_equal(config_load(&config, NULL, &error), -EINVAL);
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
	assert_int_equal(config_load(&config, NULL, &error), 0);
	environment = config_environment(&config, NULL);
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

/* Values of the file count where the environment has none; the server gets both alike. */
static void test_file(_unused_ void **state)
{
	struct config_values file = {0};
	char **environment;

	file.of[CONFIG_GRACE_MS] = (struct config_value){(char[]){"500"}, 1};
	file.of[CONFIG_SERVERS_MAX] = (struct config_value){(char[]){"7"}, 2};
	file.of[CONFIG_PIPE_DIRECTORY] = (struct config_value){(char[]){"/run/file/"}, 3};
	file.of[CONFIG_GROUP_BY_CGROUP] = (struct config_value){(char[]){"yes"}, 4};
	file.of[CONFIG_LOG_LEVEL] = (struct config_value){(char[]){"debug"}, 5};
	file.of[CONFIG_METRICS_LISTEN] = (struct config_value){(char[]){"[::1]:9400"}, 6};
	file.of[CONFIG_VISIBLE_DEVICES] = (struct config_value){(char[]){"1"}, 7};
	file.of[CONFIG_SERVER_ENV] = (struct config_value){(char[]){"MINE, OTHER"}, 8};
	file.of[CONFIG_CLIENT_HOST_MIB] = (struct config_value){(char[]){"64"}, 9};
	setenv("MPS_SERVERS_MAX", "9", 1);
	setenv("MPS_GRACE_MS", "", 1);
	setenv("MINE", "1", 1);
	setenv("OTHER", "2", 1);
	assert_int_equal(config_load(&config, &file, &error), 0);
	assert_int_equal(config.grace_ms, 500);
	assert_int_equal(config.servers_max, 9);
	assert_string_equal(config.pipe_directory, "/run/file");
	assert_string_equal(config.socket_path, "/run/file/control");
	assert_string_equal(config.metrics_listen, "[::1]:9400");
	assert_true(config.groups_by_cgroup && config.is_verbose && !config.is_multiuser);
	assert_true(config_key_is_in_environment(CONFIG_SERVERS_MAX));
	assert_false(config_key_is_in_environment(CONFIG_GRACE_MS));

	environment = config_environment(&config, NULL);
	assert_string_equal(value_of(environment, "CUDA_MPS_PIPE_DIRECTORY"), "/run/file");
	assert_string_equal(value_of(environment, "MPS_GRACE_MS"), "500");
	assert_string_equal(value_of(environment, "MPS_CLIENT_HOST_MIB"), "64");
	assert_string_equal(value_of(environment, "CUDA_VISIBLE_DEVICES"), "1");
	assert_string_equal(value_of(environment, "MINE"), "1");
	assert_string_equal(value_of(environment, "OTHER"), "2");
	config_environment_free(environment);
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	environment = config_environment(&config, NULL);
	assert_string_equal(value_of(environment, "CUDA_VISIBLE_DEVICES"), "");
	config_environment_free(environment);

	/* The file no longer has the line. */
	file.of[CONFIG_GRACE_MS] = (struct config_value){0};
	config_key_apply(CONFIG_GRACE_MS, &config);
	assert_int_equal(config.grace_ms, 10000);
}

static void check_values(enum config_key key, const char *const *right, const char *const *wrong)
{
	for (; *right; right++)
		assert_int_equal(config_key_check(key, *right, &error), 0);
	for (; *wrong; wrong++) {
		assert_true(config_key_check(key, *wrong, &error) < 0);
		assert_non_null(strstr(error.text, "it takes"));
	}
}

#define VALUES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_values(_unused_ void **state)
{
	char long_path[PATH_MAX + 8];

	memset(long_path, 'd', sizeof(long_path));
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	check_values(CONFIG_PIPE_DIRECTORY, VALUES("/run/mps", "/"), VALUES("run", long_path));
	check_values(CONFIG_LOG_DIRECTORY, VALUES("/run/mps/"), VALUES("log", long_path));
	check_values(CONFIG_LOG_LEVEL, VALUES("info", "debug"), VALUES("warn", "INFO"));
	check_values(CONFIG_KERNEL_LOG, VALUES("/dev/kmsg"), VALUES("kmsg", long_path));
	check_values(CONFIG_LOG_MAX_MIB, VALUES("0", "1048576"), VALUES("1048577", "1M"));
	check_values(CONFIG_IDLE_S, VALUES("0", "31536000"), VALUES("31536001", "-1", "1h"));
	check_values(CONFIG_SERVERS_MAX, VALUES("1", "4096"), VALUES("0", "4097"));
	check_values(CONFIG_CLIENT_HOST_MIB, VALUES("1", "16777216"), VALUES("0", "16777217"));
	check_values(CONFIG_FOREGROUND_SLOWDOWN, VALUES("1", "1000"), VALUES("0", "1001", "5%"));
	check_values(CONFIG_BACKGROUND_FLOOR, VALUES("1", "100"), VALUES("0", "101"));
	check_values(CONFIG_OVERSUBSCRIBE_HOST, VALUES("0", "16777216"), VALUES("16777217", "1G"));
	check_values(CONFIG_OVERSUBSCRIBE_STAY, VALUES("0", "3600"), VALUES("3601", "5 s"));
	check_values(CONFIG_GROUP_BY_CGROUP, VALUES("yes", "no", "1", "0"), VALUES("on", "2"));
	check_values(CONFIG_CUDA_LIBRARY, VALUES("/usr/lib/libcuda.so.1"), VALUES("libcuda.so.1"));
	check_values(CONFIG_VISIBLE_DEVICES, VALUES("0", "0,1", "GPU-536f6674", "MIG-0"),
		VALUES("0,", ",", "0, 1", "gpu", "00:06.0", "64"));
	check_values(CONFIG_DEVICE_ORDER, VALUES("PCI_BUS_ID", "FASTEST_FIRST"), VALUES("pci"));
	check_values(CONFIG_MULTIUSER_SERVER, VALUES("yes", "no"), VALUES("true"));
	check_values(CONFIG_TRUST_CONTAINER_ROOT, VALUES("yes", "no"), VALUES("true"));
	check_values(CONFIG_SERVER_USER, VALUES("mps", "1000"), VALUES("a b", "/x"));
	check_values(CONFIG_SERVER_ENV, VALUES("A", "A,B_2", "A, B"), VALUES("A=1", "A;B"));
	check_values(CONFIG_METRICS_LISTEN,
		VALUES("off", "1", "65535", "0.0.0.0:9400", "[::]:9400"),
		VALUES("0", "65536", "on", "localhost:9400", "1.2.3:9400", ":9400", "::1:9400",
			"[::1]9400", "1.2.3.4", long_path));
	for (enum config_key key = 0; key < CONFIG_KEYS; key++)
		assert_int_equal(config_key_find(config_key_name(key)), key);
	assert_int_equal(config_key_find("grace"), CONFIG_KEYS);
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
		cmocka_unit_test_setup(test_file, set_up),
		cmocka_unit_test_setup(test_values, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
