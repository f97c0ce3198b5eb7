"""What other pipeline schedules would give: orders of operations, replayed with measured times.

Words: a *device* runs one operation at a time; a *stage* here is a virtual one, of which a device
has several where its model is cut into chunks. Formulas: docs/which-schedule.md.
"""
