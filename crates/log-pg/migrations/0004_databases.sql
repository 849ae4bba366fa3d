-- In the order in which claims of names take them.
LOCK TABLE kew_shard, kew_name IN ACCESS EXCLUSIVE MODE;

-- Which database of its store this is, and how many there are. All of them have the same mark, which follows from the
-- secret: bytes of no use to anybody else.
ALTER TABLE kew_store
    ADD COLUMN mark bytea CHECK (octet_length(mark) = 16),
    ADD COLUMN number int NOT NULL DEFAULT 0,
    ADD COLUMN databases int NOT NULL DEFAULT 1 CHECK (number >= 0 AND number < databases);
UPDATE kew_store SET mark = substring(sha256(convert_to('kew: the mark of a store', 'UTF8') || secret) FOR 16);
ALTER TABLE kew_store ALTER COLUMN mark SET NOT NULL;

-- Where the databases of the store are, in its first one: URLs without passwords. A store in one database has no list.
CREATE TABLE kew_database (
    number int PRIMARY KEY,
    url text NOT NULL
);

-- The shard of a name may lie in another database than the name. Then the shard's row cannot fence its owner here. The
-- number of the last claim does: it grows with the owner's epoch, and with each claim and release of one owner. So a
-- release that is carried out late frees nothing that was claimed since.
ALTER TABLE kew_name DROP CONSTRAINT kew_name_shard_fkey, ADD COLUMN claim bigint NOT NULL DEFAULT 0;
