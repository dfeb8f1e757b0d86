SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA pm_collector;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE pm_collector.blob_aliases (
    trace_id uuid NOT NULL,
    submitted_id text NOT NULL,
    blob_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE pm_collector.blobs (
    blob_id text NOT NULL COLLATE pg_catalog."C",
    storage_uri text NOT NULL,
    content_type text NOT NULL,
    byte_len bigint NOT NULL,
    redaction_json json NOT NULL,
    held_by bigint DEFAULT 0 NOT NULL,
    shared boolean DEFAULT false NOT NULL,
    touched_ms bigint NOT NULL,
    data bytea
);
CREATE TABLE pm_collector.events (
    trace_id uuid NOT NULL,
    seq bigint NOT NULL,
    ts_ms bigint NOT NULL,
    type text NOT NULL,
    payload_jsonb json NOT NULL,
    event_id uuid NOT NULL,
    envelope_json json NOT NULL,
    identity bytea NOT NULL
);
CREATE TABLE pm_collector.purges (
    trace_id uuid NOT NULL
);
CREATE TABLE pm_collector.qa_facts (
    number bigint NOT NULL,
    trace_id uuid NOT NULL,
    step text NOT NULL,
    input_hash text NOT NULL,
    ts_ms bigint NOT NULL,
    result_json json NOT NULL
);
ALTER TABLE pm_collector.qa_facts ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pm_collector.qa_facts_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE pm_collector.schema_version (
    version integer NOT NULL
);
CREATE TABLE pm_collector.secrets (
    name text NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE pm_collector.tokens (
    token_id text NOT NULL,
    kind text NOT NULL,
    token_hash text NOT NULL,
    trace_id uuid,
    label text NOT NULL,
    created_at_ms bigint NOT NULL,
    revoked_at_ms bigint
);
CREATE TABLE pm_collector.trace_blobs (
    trace_id uuid NOT NULL,
    blob_id text NOT NULL COLLATE pg_catalog."C",
    content_type text NOT NULL,
    redaction_json json NOT NULL,
    used boolean NOT NULL
);
CREATE TABLE pm_collector.trace_gaps (
    trace_id uuid NOT NULL,
    from_seq bigint NOT NULL,
    to_seq bigint NOT NULL
);
CREATE TABLE pm_collector.traces (
    trace_id uuid NOT NULL,
    status text NOT NULL,
    created_at_ms bigint NOT NULL,
    finalized_at_ms bigint,
    metadata_json json NOT NULL,
    final_state_json json,
    seq_last bigint DEFAULT 0 NOT NULL,
    event_count bigint DEFAULT 0 NOT NULL,
    byte_count bigint DEFAULT 0 NOT NULL,
    clock_skew_ms bigint,
    final_blob_id text,
    deleted_at_ms bigint,
    identity bytea DEFAULT '\x'::bytea NOT NULL
)
WITH (fillfactor='70');
INSERT INTO pm_collector.blobs VALUES ('sha256:a58077a3986c0c4c2c8744c08cfd40ab37b5adeee86929083bb9d2a35c6cf749', 'db:sha256:a58077a3986c0c4c2c8744c08cfd40ab37b5adeee86929083bb9d2a35c6cf749', 'application/octet-stream', 473, '{"applied":false,"rules":[]}', 1, true, 1795383823648, '\x23207632206769742062756e646c650a3530656465616438623765643335343561393638346535356662626462643532353262653861353120726566732f68656164732f6d61696e0a0a5041434b00000002000000069309789c8dcb510ac2300c00d0ff9e22ff826c4d9a6d20a247499354054ba5abe0f1f508beff37ba3ba0ac441baa51449e559d8dc96c2b259798d34aac8e2829c87bdc5b87ab099cc4e4e21fa9afa71f5bbf9d615e78c1881325384c3f415bad8f31fcef10b2ec1ebebe7b2ad1a506789c3334303033315108727574f175d5cb4d6158c0a6b8db6af64cbe07123f2ef8e81a3a34f0e62c3384282a2acdd32bce609052695595315ece6264e933f977a731df2791fd274d0c8040a1b82899619baeecb6cabbff7f4df6e66abc17f278e3fa3397a4017ddc256837789c535608cec82fe00200073201e83a789c5356d44fcaccd32fcee002000e4202c1a302789c33343030333151484ecc49d62ba8645861f4b765f73997c32bfbe5df385bbaa54994a7380200df110d84b406789c4b494d5328c92f49ccd1c82c49cd2dd6b4e2520082a2d492d2a23c85e2d25ca8b082ae82211717570a50756e6a621e36c5c8a628e82be4a4c25471010042c71f98b4c35eddc21e75e2cd935605d243f6637e348d18');
INSERT INTO pm_collector.blobs VALUES ('sha256:5fe6ea26ef52672d89ae1835d4e41bcee4a8baed5517efe954af336802859084', 'db:sha256:5fe6ea26ef52672d89ae1835d4e41bcee4a8baed5517efe954af336802859084', 'text/plain', 26, '{"applied":true,"rules":["secret_scan","pii_mask"]}', 1, false, 1795383823664, '\x4520206173736572742035203d3d20360a31206661696c65640a');
INSERT INTO pm_collector.blobs VALUES ('sha256:67ec50d1f2c4955cb0f3d0c17f394bf23214735002e6211b6eb32f03e32a6cc8', 'db:sha256:67ec50d1f2c4955cb0f3d0c17f394bf23214735002e6211b6eb32f03e32a6cc8', 'text/plain', 112, '{"applied":true,"rules":["secret_scan","pii_mask"]}', 1, false, 1795383823664, '\x64696666202d2d67697420612f524541444d452e6d6420622f524541444d452e6d640a64656c657465642066696c65206d6f6465203130303634340a2d2d2d20612f524541444d452e6d640a2b2b2b202f6465762f6e756c6c0a4040202d31202b302c302040400a2d232053686f700a');
INSERT INTO pm_collector.blobs VALUES ('sha256:6921d19ea0abae5ba9256938e0b91862d81ae3a75093e29f63819ce8033168e2', 'db:sha256:6921d19ea0abae5ba9256938e0b91862d81ae3a75093e29f63819ce8033168e2', 'text/plain', 96, '{"applied":true,"rules":["secret_scan","pii_mask"]}', 1, false, 1795383823664, '\x64656620746f74616c286974656d73293a0a2020202072657475726e2073756d286974656d73290a0a0a646566206d65616e286974656d73293a0a2020202072657475726e20746f74616c286974656d7329202f206c656e286974656d73290a');
INSERT INTO pm_collector.blobs VALUES ('sha256:a8a1ad6753232b028669724e3f5e03afd820a0b251279e48907868ec1094acfb', 'db:sha256:a8a1ad6753232b028669724e3f5e03afd820a0b251279e48907868ec1094acfb', 'text/plain', 182, '{"applied":true,"rules":["secret_scan","pii_mask"]}', 1, false, 1795383823664, '\x64696666202d2d67697420612f7372632f63616c632e707920622f7372632f63616c632e70790a2d2d2d20612f7372632f63616c632e70790a2b2b2b20622f7372632f63616c632e70790a4040202d312c35202b312c352040400a2064656620746f74616c286974656d73293a0a2d2020202072657475726e2073756d286974656d7329202d20310a2b2020202072657475726e2073756d286974656d73290a200a200a20646566206d65616e286974656d73293a0a');
INSERT INTO pm_collector.blobs VALUES ('sha256:d2fa9b8cf59bb7ad558d2598b2e440effa301ae14fe21c79c4134fb3ab8f082d', 'db:sha256:d2fa9b8cf59bb7ad558d2598b2e440effa301ae14fe21c79c4134fb3ab8f082d', 'text/plain', 100, '{"applied":true,"rules":["secret_scan","pii_mask"]}', 1, false, 1795383823664, '\x64656620746f74616c286974656d73293a0a2020202072657475726e2073756d286974656d7329202d20310a0a0a646566206d65616e286974656d73293a0a2020202072657475726e20746f74616c286974656d7329202f206c656e286974656d73290a');
INSERT INTO pm_collector.blobs VALUES ('sha256:d7c48b469ffb627a8e8d4fa7aa1488718c181fab3167be3da32fcb4c8e1eea58', 'db:sha256:d7c48b469ffb627a8e8d4fa7aa1488718c181fab3167be3da32fcb4c8e1eea58', 'text/plain', 214, '{"applied":true,"rules":["secret_scan","pii_mask"]}', 1, false, 1795383823664, '\x64696666202d2d67697420612f74657374732f746573745f63616c632e707920622f74657374732f746573745f63616c632e70790a6e65772066696c65206d6f6465203130303634340a2d2d2d202f6465762f6e756c6c0a2b2b2b20622f74657374732f746573745f63616c632e70790a4040202d302c30202b312c352040400a2b66726f6d207372632e63616c6320696d706f727420746f74616c0a2b0a2b0a2b64656620746573745f746f74616c28293a0a2b2020202061737365727420746f74616c285b312c20322c20335d29203d3d20360a');
INSERT INTO pm_collector.blobs VALUES ('sha256:f786ffe17600e76f0ca6c1906e1a9aaa9635a8052c1131338a0d052e7952c4a9', 'db:sha256:f786ffe17600e76f0ca6c1906e1a9aaa9635a8052c1131338a0d052e7952c4a9', 'text/plain', 32, '{"applied":true,"rules":["secret_scan","pii_mask"]}', 1, false, 1795383823664, '\x73756d28292069732072696768742c2074686520272d203127206973206e6f74');
INSERT INTO pm_collector.blobs VALUES ('sha256:2e6f0833e13a27ecdf2adaa781e7ed78e7f6ed267ce13a3005d900641cf3ebdf', 'db:sha256:2e6f0833e13a27ecdf2adaa781e7ed78e7f6ed267ce13a3005d900641cf3ebdf', 'application/octet-stream', 612, '{"applied":false,"rules":[]}', 1, false, 1795383823723, '\x23207632206769742062756e646c650a2d3530656465616438623765643335343561393638346535356662626462643532353262653861353120626173650a3965646266343934316264666561663938393736613565316538646233363564323234626332386620726566732f68656164732f6d61696e0a0a5041434b00000002000000069a0c789c8dcb410ac3201005d0bda7705f28461d35504abbe93d46e79b049a2688811cbf3d42dffef506685732db94bc0178342ef8e0c7588b2985eae0069108588faa766ef8744d0602969423c491271e43f220aa394b16b2643312d3a0f8e8f3d6f45358df58f88193d7fd8debd6a6bb1e6288ce3ae3495fcc8f2adbba2ebde3efa05ecba9fb0c9d8f497d01f5d13b7fa006789c33343030333151282acdd32bce609052695595315ece6264e933f977a731df2791fd274d0c8040a1b82899e1bdc23e93de1ff3ac8faf36b9f731f0e76e7113b7d510d992d4e2926206d767cfae85951e8ddc52ad29e4a5ec2390cfb7a11e0077a82494a302789c33343030333151484ecc49d62ba8645857fecf30b0d5a8bad33a3ba5514cfeefca2a235300cda10ca177a832fd84bbce44c3a98f1fec4339466618776441789c4b4998a03e51db12000ab10271a802789c3334303033315128492d2e894f4ecc49d62ba864f8f86a43bf70a7c6baebad8ba235f64fb95ebbed4d3f00315e11feb005789c4b2bcacf55282e4ad64b4ecc4956c8cc2dc82f2a5128c92f49cce1e2e24a494d5328492d2e89070b68685a712900416271712a4c9146b4a18e82918e8271aca682adad82191700498218a96d375a96258985c7adafb45ca56299e35070d5dc');
INSERT INTO pm_collector.blobs VALUES ('sha256:b76c132800cd6970518bb205b9b2730bf906cd76934afbaaece30583fb044c84', 'db:sha256:b76c132800cd6970518bb205b9b2730bf906cd76934afbaaece30583fb044c84', 'text/plain', 584, '{"applied":true,"rules":["secret_scan","pii_mask"]}', 1, false, 1795383823664, '\x64696666202d2d67697420612f524541444d452e6d6420622f524541444d452e6d640a64656c657465642066696c65206d6f6465203130303634340a696e64657820613030363231622e2e303030303030300a2d2d2d20612f524541444d452e6d640a2b2b2b202f6465762f6e756c6c0a4040202d31202b302c302040400a2d232053686f700a64696666202d2d67697420612f7372632f63616c632e707920622f7372632f63616c632e70790a696e64657820613833326664382e2e61653737666533203130303634340a2d2d2d20612f7372632f63616c632e70790a2b2b2b20622f7372632f63616c632e70790a4040202d312c35202b312c352040400a2064656620746f74616c286974656d73293a0a2d2020202072657475726e2073756d286974656d7329202d20310a2b2020202072657475726e2073756d286974656d73290a200a200a20646566206d65616e286974656d73293a0a64696666202d2d67697420612f74657374732f746573745f63616c632e707920622f74657374732f746573745f63616c632e70790a6e65772066696c65206d6f6465203130303634340a696e64657820303030303030302e2e663165616230380a2d2d2d202f6465762f6e756c6c0a2b2b2b20622f74657374732f746573745f63616c632e70790a4040202d302c30202b312c352040400a2b66726f6d207372632e63616c6320696d706f727420746f74616c0a2b0a2b0a2b64656620746573745f746f74616c28293a0a2b2020202061737365727420746f74616c285b312c20322c20335d29203d3d20360a');
INSERT INTO pm_collector.blobs VALUES ('sha256:fcefa35f8c75a961159d8dd5dff23a1d1af3025ec828cebc29e4dd139f013051', 'file:///srv/shop/.pm-orchestrator/collector-blobs/sha256/fc/efa35f8c75a961159d8dd5dff23a1d1af3025ec828cebc29e4dd139f013051', 'application/json', 9722, '{"applied":false,"rules":[]}', 1, false, 1795383823830, NULL);
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 1, 1767300001000, 'navigation', '{"extra":{},"file_path":"src/calc.py","kind":"open","line":1,"query":null}', '9fe9004a-0ca5-5924-a479-b42ff537a0fc', '{"actor":{"id":null,"kind":"ide"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x96036850a9cbebceebfaeb0bcd771fc3');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 2, 1767300002000, 'terminal_command', '{"command":"pytest -q","cwd":"$PROJECT_ROOT","env_hash":null,"extra":{},"shell":"bash"}', '821399a8-2797-5511-a67b-da4bc5904ed3', '{"actor":{"id":null,"kind":"human"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x8c760cee75ffa876dacc1cfb745337d7');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 3, 1767300003000, 'terminal_output', '{"chunk_blob_id":"sha256:5fe6ea26ef52672d89ae1835d4e41bcee4a8baed5517efe954af336802859084","extra":{},"is_truncated":false,"stream":"stdout"}', 'fcf1d571-953f-5391-9a5e-b8e813abfcc2', '{"actor":{"id":null,"kind":"tool"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":"821399a8-2797-5511-a67b-da4bc5904ed3","workspace_root":null}}', '\xb4ddffb9ddc0f63f2efed9a0d6bdc475');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 4, 1767300004000, 'test_run', '{"command":"pytest -q","duration_ms":900,"exit_code":1,"extra":{},"passed":false,"report_blob_id":null,"runner":"pytest"}', '6d0d6a67-8df7-56db-9310-ea7b3d34e694', '{"actor":{"id":null,"kind":"tool"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x1efce55269c2b6cec7d7c2498ca8a6ef');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 5, 1767300005000, 'thought', '{"content_blob_id":"sha256:f786ffe17600e76f0ca6c1906e1a9aaa9635a8052c1131338a0d052e7952c4a9","extra":{},"kind":"hypothesis","links_to":[]}', '9981df28-14fd-56b2-8b05-fafcd0092908', '{"actor":{"id":null,"kind":"human"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\xe1befd07b9c80123d02a416468889c5b');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 6, 1767300006000, 'file_snapshot', '{"content_blob_id":"sha256:d2fa9b8cf59bb7ad558d2598b2e440effa301ae14fe21c79c4134fb3ab8f082d","extra":{},"file_path":"src/calc.py","snapshot_reason":"pre_test"}', '6e27aac9-9261-569f-920b-cac93e7275a2', '{"actor":{"id":null,"kind":"human"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x4be245a06e3894271709d4da1ec713f7');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 7, 1767300007000, 'file_edit', '{"edit_kind":"patch","extra":{},"file_path":"src/calc.py","patch_blob_id":"sha256:a8a1ad6753232b028669724e3f5e03afd820a0b251279e48907868ec1094acfb","patch_format":"unified_diff","post_hash":"sha256:6921d19ea0abae5ba9256938e0b91862d81ae3a75093e29f63819ce8033168e2","pre_hash":"sha256:d2fa9b8cf59bb7ad558d2598b2e440effa301ae14fe21c79c4134fb3ab8f082d","reason_ref":"9981df28-14fd-56b2-8b05-fafcd0092908","selection":null}', 'c25b498a-b07b-5971-acc0-b8bd97ac0158', '{"actor":{"id":null,"kind":"human"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x7b6f2fe0e8400f714240bcfdfead67fa');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 8, 1767300008000, 'file_edit', '{"edit_kind":"patch","extra":{},"file_path":"tests/test_calc.py","patch_blob_id":"sha256:d7c48b469ffb627a8e8d4fa7aa1488718c181fab3167be3da32fcb4c8e1eea58","patch_format":"unified_diff","post_hash":"sha256:079477e711385146ad55a91aac1ccaf68f8ec571e22d30edc6fe33fdcbd2df87","pre_hash":null,"reason_ref":null,"selection":null}', '51e2c247-9124-52d4-a13d-35a2ea818302', '{"actor":{"id":null,"kind":"human"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x26f45a3ccbc46ae757cc08c89d78daa1');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 9, 1767300009000, 'file_snapshot', '{"content_blob_id":"sha256:6921d19ea0abae5ba9256938e0b91862d81ae3a75093e29f63819ce8033168e2","extra":{},"file_path":"src/calc.py","snapshot_reason":"post_test"}', 'd6d98bcb-e5e7-5fbf-88a3-73507fa69d1c', '{"actor":{"id":null,"kind":"human"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x84c352bd5e6ec8dde65a695cab2efa27');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 10, 1767300010000, 'test_run', '{"command":"pytest -q","duration_ms":900,"exit_code":0,"extra":{},"passed":true,"report_blob_id":null,"runner":"pytest"}', '75d947b7-a01b-5a45-9269-b856391ed859', '{"actor":{"id":null,"kind":"tool"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x113bc55f56d91b62f7d56040ccffa36b');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 11, 1767300011000, 'file_edit', '{"edit_kind":"patch","extra":{},"file_path":"README.md","patch_blob_id":"sha256:67ec50d1f2c4955cb0f3d0c17f394bf23214735002e6211b6eb32f03e32a6cc8","patch_format":"unified_diff","post_hash":null,"pre_hash":"sha256:ae930d477cc586a9cb4f4d18f163d8ec439ed6d30b6f3b4b6d35a54b89eccf7e","reason_ref":null,"selection":null}', '038abe97-7db0-5cb5-8f8d-d31a2de4de71', '{"actor":{"id":null,"kind":"human"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x6bc24173178f7f9c109e2a669b82a71d');
INSERT INTO pm_collector.events VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 12, 1767300012000, 'commit', '{"commit_sha":"9edbf4941bdfeaf98976a5e1e8db365d224bc28f","diff_blob_id":"sha256:b76c132800cd6970518bb205b9b2730bf906cd76934afbaaece30583fb044c84","extra":{},"message":"Fix the bug","parent_sha":"50edead8b7ed3545a9684e55fbbdbd5252be8a51"}', '820e627f-1510-5335-af44-1576bbf8a5e0', '{"actor":{"id":null,"kind":"human"},"context":{"branch":null,"commit_head":null,"correlation_id":null,"parent_event_id":null,"workspace_root":null}}', '\x769bfbab84165274f3088d69c59e229c');
INSERT INTO pm_collector.schema_version VALUES (1);
INSERT INTO pm_collector.tokens VALUES ('f2c0c30a-798f-40fa-8f86-9d18c7f0039f', 'ingest', '85b252f40074960420d9693d55518b6f8a1b91ec492140303ca0a895dc0241b0', '43fdca48-ce03-5907-8627-ecd96b6ce945', '', 1795383823609, NULL);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:5fe6ea26ef52672d89ae1835d4e41bcee4a8baed5517efe954af336802859084', 'text/plain', '{"applied":true,"rules":["secret_scan","pii_mask"]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:67ec50d1f2c4955cb0f3d0c17f394bf23214735002e6211b6eb32f03e32a6cc8', 'text/plain', '{"applied":true,"rules":["secret_scan","pii_mask"]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:6921d19ea0abae5ba9256938e0b91862d81ae3a75093e29f63819ce8033168e2', 'text/plain', '{"applied":true,"rules":["secret_scan","pii_mask"]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:a8a1ad6753232b028669724e3f5e03afd820a0b251279e48907868ec1094acfb', 'text/plain', '{"applied":true,"rules":["secret_scan","pii_mask"]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:b76c132800cd6970518bb205b9b2730bf906cd76934afbaaece30583fb044c84', 'text/plain', '{"applied":true,"rules":["secret_scan","pii_mask"]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:d2fa9b8cf59bb7ad558d2598b2e440effa301ae14fe21c79c4134fb3ab8f082d', 'text/plain', '{"applied":true,"rules":["secret_scan","pii_mask"]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:d7c48b469ffb627a8e8d4fa7aa1488718c181fab3167be3da32fcb4c8e1eea58', 'text/plain', '{"applied":true,"rules":["secret_scan","pii_mask"]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:f786ffe17600e76f0ca6c1906e1a9aaa9635a8052c1131338a0d052e7952c4a9', 'text/plain', '{"applied":true,"rules":["secret_scan","pii_mask"]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:2e6f0833e13a27ecdf2adaa781e7ed78e7f6ed267ce13a3005d900641cf3ebdf', 'application/octet-stream', '{"applied":false,"rules":[]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:a58077a3986c0c4c2c8744c08cfd40ab37b5adeee86929083bb9d2a35c6cf749', 'application/octet-stream', '{"applied":false,"rules":[]}', true);
INSERT INTO pm_collector.trace_blobs VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'sha256:fcefa35f8c75a961159d8dd5dff23a1d1af3025ec828cebc29e4dd139f013051', 'application/json', '{"applied":false,"rules":[]}', false);
INSERT INTO pm_collector.traces VALUES ('43fdca48-ce03-5907-8627-ecd96b6ce945', 'finalized', 1795383823602, 1795383823723, '{"developer":{"consent_flags":{"allow_llm_judge":true,"store_raw_code":true,"store_terminal_output":true},"developer_id":"dev-1","experience_level":"senior"},"environment":{"containerized":false,"ide":null,"language":["python"],"os":"linux","timezone":"UTC"},"ingestion":{"client_session_id":"s-1","clock_skew_ms_est":0,"dedupe_policy":"event_id","mode":"incremental","seq_last":0},"qa_profile":null,"repo":{"bundle_blob_id":"sha256:a58077a3986c0c4c2c8744c08cfd40ab37b5adeee86929083bb9d2a35c6cf749","commit_base":"50edead8b7ed3545a9684e55fbbdbd5252be8a51","default_branch":"main","remote_url":null,"repo_fingerprint":{"dependencies_lock_hash":null,"tree_hash":null},"repo_id":"acme/shop"},"store":"redacted","task":{"bug_report":{"actual":"5","description":"The sum of a cart is off by one.","expected":"6","links":[],"repro_steps":null,"title":"Totals are wrong"},"labels":["arithmetic"],"task_id":"BUG-7"}}', '{"bundle_blob_id":"sha256:2e6f0833e13a27ecdf2adaa781e7ed78e7f6ed267ce13a3005d900641cf3ebdf","commit_head":"9edbf4941bdfeaf98976a5e1e8db365d224bc28f","pr":{"description":null,"diff_blob_id":"sha256:b76c132800cd6970518bb205b9b2730bf906cd76934afbaaece30583fb044c84","title":"Fix the bug"}}', 12, 12, 5441, NULL, 'sha256:fcefa35f8c75a961159d8dd5dff23a1d1af3025ec828cebc29e4dd139f013051', NULL, '\x9b6659d516301e4f6c34470a7ac0ec76');
SELECT pg_catalog.setval('pm_collector.qa_facts_number_seq', 1, false);
ALTER TABLE ONLY pm_collector.blob_aliases
    ADD CONSTRAINT blob_aliases_pkey PRIMARY KEY (trace_id, submitted_id);
ALTER TABLE ONLY pm_collector.blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (blob_id);
ALTER TABLE ONLY pm_collector.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (trace_id, seq);
ALTER TABLE ONLY pm_collector.events
    ADD CONSTRAINT events_trace_id_event_id_key UNIQUE (trace_id, event_id);
ALTER TABLE ONLY pm_collector.purges
    ADD CONSTRAINT purges_pkey PRIMARY KEY (trace_id);
ALTER TABLE ONLY pm_collector.qa_facts
    ADD CONSTRAINT qa_facts_pkey PRIMARY KEY (number);
ALTER TABLE ONLY pm_collector.qa_facts
    ADD CONSTRAINT qa_facts_trace_id_step_input_hash_key UNIQUE (trace_id, step, input_hash);
ALTER TABLE ONLY pm_collector.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (name);
ALTER TABLE ONLY pm_collector.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (token_id);
ALTER TABLE ONLY pm_collector.tokens
    ADD CONSTRAINT tokens_token_hash_key UNIQUE (token_hash);
ALTER TABLE ONLY pm_collector.trace_blobs
    ADD CONSTRAINT trace_blobs_pkey PRIMARY KEY (trace_id, blob_id);
ALTER TABLE ONLY pm_collector.trace_gaps
    ADD CONSTRAINT trace_gaps_pkey PRIMARY KEY (trace_id, from_seq);
ALTER TABLE ONLY pm_collector.traces
    ADD CONSTRAINT traces_pkey PRIMARY KEY (trace_id);
CREATE INDEX blobs_garbage ON pm_collector.blobs USING btree (touched_ms) WHERE (held_by = 0);
CREATE INDEX tokens_of_trace ON pm_collector.tokens USING btree (trace_id) WHERE (trace_id IS NOT NULL);
CREATE INDEX traces_newest ON pm_collector.traces USING btree (created_at_ms, trace_id);
CREATE INDEX traces_pending ON pm_collector.traces USING btree (finalized_at_ms, trace_id) WHERE (status = ANY (ARRAY['finalized'::text, 'qa_running'::text]));
