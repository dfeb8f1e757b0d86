-- Released: it never changes, new versions follow. The statements that lead to version 2.
-- See collector.store.sqlite.blobs.
CREATE TABLE blob_ids_new (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID;
CREATE TABLE blob_ids_recent (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID;
CREATE TABLE blob_ids (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID;
CREATE VIEW blob_numbers AS
    SELECT key, number FROM blob_ids_new
    UNION ALL SELECT key, number FROM blob_ids_recent
    UNION ALL SELECT key, number FROM blob_ids;
INSERT INTO blob_ids SELECT blob_key(blob_id), number FROM blobs ORDER BY 1, 2;
DROP INDEX blobs_by_id;
-- How many traces hold a blob beside those that its row counts; what is here is counted there too.
CREATE TABLE blob_holds (number INTEGER PRIMARY KEY, more INTEGER NOT NULL);
-- So that a program of version 1 that still runs fails where it would store a blob that nobody finds.
ALTER TABLE trace_blobs RENAME COLUMN used TO named;
