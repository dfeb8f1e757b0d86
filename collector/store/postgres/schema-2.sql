-- Released: it never changes, new versions follow. The statements that lead to version 2: rights of tokens, audit, leases.
ALTER TABLE tokens ADD COLUMN role text NOT NULL DEFAULT 'operator';
ALTER TABLE tokens ADD COLUMN developer text NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN project text NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN expires_at_ms bigint;
CREATE TABLE audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms bigint NOT NULL,
    token_id text NOT NULL,
    role text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL
);
CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuses();
-- Who makes the checks of a trace now.
CREATE TABLE leases (trace_id uuid PRIMARY KEY, holder text NOT NULL, until_ms bigint NOT NULL);
