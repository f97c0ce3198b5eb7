"""SQL that people write: three layers, each of which alone keeps it from writing anything.

The statement's tree is walked against an allow-list (allow_list), the connection knows no file
system but one that only reads this run's files (connection, run_file_system), and the statement
runs in a process of its own under the kernel's rules (kernel, seccomp). That process takes one
statement, or several cheap ones of a session, and ends; the server reads its answer from a socket
(sql_process) and may kill it at any moment.
"""
