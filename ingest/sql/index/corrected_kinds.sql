-- Kind of the communication of groups whose axis is another than the files told, because the layout
-- was corrected by hand. Segments keep what they told: whoever reads their kinds joins this.
CREATE VIEW IF NOT EXISTS corrected_kinds AS
    SELECT attempt, group_id,
        if(axis IN ('tp', 'pp', 'dp', 'ep', 'cp'), axis || '_comm', 'other_comm') AS kind
    FROM group_members WHERE axis IS DISTINCT FROM told_axis;
