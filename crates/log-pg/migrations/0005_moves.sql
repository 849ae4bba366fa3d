-- In the order in which statements take it.
LOCK TABLE kew_shard IN ACCESS EXCLUSIVE MODE;

-- A shard may be moved from one database of its store to another. Its row stays in each database that it was ever in,
-- for ever, and no node may own it there. Of these rows at most one has neither `moved_to` nor `arriving`: the shard
-- lies in that database.
ALTER TABLE kew_shard
    -- How often the shard had been moved when it came here.
    ADD COLUMN moves int NOT NULL DEFAULT 0,
    -- The number of the database that an operator wants it to be in.
    ADD COLUMN wanted_in int,
    -- The number of the database that it was moved to, and the epoch that its row there had then.
    ADD COLUMN moved_to int,
    ADD COLUMN arrives_as bigint,
    -- Its files are being copied here, by the owner that has this epoch where the shard lies; and whether all are here.
    ADD COLUMN arriving boolean NOT NULL DEFAULT false,
    ADD COLUMN copied_by bigint,
    ADD COLUMN is_whole boolean NOT NULL DEFAULT false,
    -- Programs of before do not know that a shard can move.
    ADD CONSTRAINT kew_shard_is_owned_where_it_lies CHECK (node = '' OR (moved_to IS NULL AND NOT arriving));
