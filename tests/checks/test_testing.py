"""The checks as tests of one's own suite."""

import pytest

from nmtcheck.testing import checks

pytest_plugins = ["pytester"]


@pytest.mark.slow
def test_a_check_is_a_test_that_passes_fails_or_is_skipped(pytester):
    pytester.makepyfile(
        """
        from nmtcheck.testing import checks
        from patients import stranger

        test_sound = checks(stranger(), only=["inside", "masks"])
        test_wrong = checks(stranger("off by one"), only="inside")
        """
    )
    result = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=21, failed=1)
    result.stdout.fnmatch_lines(["*test_wrong?inside.future?*", "*cause: Each position sees*"])
    with pytest.raises(ValueError, match="no check 'insid'"):
        checks(None, only="insid")
