"""A clause as a query of CEQL, where there is one."""
