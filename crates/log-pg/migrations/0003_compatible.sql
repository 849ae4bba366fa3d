-- A program that knows this many migrations works with the tables behind this one; older ones are refused. Without it
-- every program that does not know the migration is refused.
ALTER TABLE kew_migration ADD COLUMN compatible_from int;
