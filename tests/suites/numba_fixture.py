# SPDX-License-Identifier: Apache-2.0
"""The fixture that numba-cuda's tests expect of a conftest.py, which its package does not contain."""

import pytest


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Without the option to keep what did not match."""
    request.cls._dump_failed_filechecks = False  # pylint: disable=protected-access
