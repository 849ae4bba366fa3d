-- A shard of a store. Its row is kept for ever: the epoch in it is what fences an old owner.
CREATE TABLE kew_shard (
    id int PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    node text NOT NULL DEFAULT '',
    taken_at timestamptz
);
INSERT INTO kew_shard (id) VALUES (0);

-- A running node. It owns its shards until `until`, by this database's clock.
CREATE TABLE kew_node (
    id text PRIMARY KEY,
    name text NOT NULL,
    until timestamptz NOT NULL
);

-- The files of a shard: segments of its journal, checkpoints, and small ones whose bytes are here.
-- The bytes of a large file are the rows of a table of its own, kew_journal_N or kew_slice_N, N its id.
CREATE TABLE kew_file (
    id bigint PRIMARY KEY,
    shard int NOT NULL REFERENCES kew_shard,
    name text NOT NULL,
    length bigint NOT NULL DEFAULT 0,
    bytes bytea,
    UNIQUE (shard, name)
);
ALTER TABLE kew_file ALTER COLUMN bytes SET STORAGE EXTERNAL;
