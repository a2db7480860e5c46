"""pytester is for the plugin's own tests; pytest takes this line from the root's conftest only."""

pytest_plugins = ["pytester"]
