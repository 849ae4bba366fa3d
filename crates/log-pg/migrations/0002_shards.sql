-- What the nodes of a store share: one row.
CREATE TABLE kew_store (
    id int PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    -- Shards have the ids from 0 to this, without it.
    shards int NOT NULL CHECK (shards > 0),
    -- By it the nodes of the store know each other: 32 bytes of chance.
    secret bytea NOT NULL CHECK (octet_length(secret) = 32)
);

-- Where other nodes reach a node, and which version of Kew it is.
ALTER TABLE kew_node ADD COLUMN peer text, ADD COLUMN version text;

-- The run of a node that a shard without an owner is handed over to, and since when.
ALTER TABLE kew_shard ADD COLUMN wanted text NOT NULL DEFAULT '', ADD COLUMN wanted_at timestamptz;

-- Which shard the name of a queue belongs to. Whether there is a queue of that name is said by the shard's ledger.
CREATE TABLE kew_name (
    account bigint NOT NULL,
    region text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    shard int NOT NULL REFERENCES kew_shard,
    PRIMARY KEY (account, region, name)
);
CREATE INDEX kew_name_of_shard ON kew_name (shard, account, region, name);
