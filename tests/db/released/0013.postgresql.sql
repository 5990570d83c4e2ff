SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.api_keys (
    id bigint NOT NULL,
    name text NOT NULL,
    hash character varying(64) NOT NULL,
    scope text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision,
    revoked_at double precision,
    CONSTRAINT ck_api_keys_scope CHECK ((scope = ANY (ARRAY['read'::text, 'submit'::text, 'admin'::text])))
);
CREATE SEQUENCE public.api_keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.api_keys_id_seq OWNED BY public.api_keys.id;
CREATE TABLE public.artifacts (
    sha256 character varying(64) NOT NULL,
    size bigint NOT NULL,
    kind text NOT NULL,
    media_type text NOT NULL,
    content bytea NOT NULL,
    created_at double precision NOT NULL
);
CREATE TABLE public.best_artifacts (
    best_id bigint NOT NULL,
    kind text NOT NULL,
    sha256 character varying(64) NOT NULL
);
CREATE TABLE public.bests (
    id bigint NOT NULL,
    workload_id bigint NOT NULL,
    device_id bigint NOT NULL,
    job_seq bigint NOT NULL,
    template text NOT NULL,
    template_version integer NOT NULL,
    tvm_version text NOT NULL,
    config json NOT NULL,
    time_us double precision NOT NULL,
    timing json NOT NULL,
    gflops double precision,
    roofline json NOT NULL,
    max_error double precision,
    baselines json NOT NULL,
    trials_measured integer NOT NULL,
    versions json NOT NULL,
    tuned_at double precision NOT NULL,
    threads integer DEFAULT 0 NOT NULL,
    templates text DEFAULT ''::text NOT NULL
);
CREATE SEQUENCE public.bests_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.bests_id_seq OWNED BY public.bests.id;
CREATE TABLE public.devices (
    id bigint NOT NULL,
    identity character varying(64) NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    arch text NOT NULL,
    memory_bytes bigint NOT NULL,
    driver text NOT NULL,
    limits json NOT NULL
);
CREATE SEQUENCE public.devices_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.devices_id_seq OWNED BY public.devices.id;
CREATE TABLE public.idempotency_keys (
    ordered_by text NOT NULL,
    key text NOT NULL,
    order_key character varying(64) NOT NULL,
    job_seq bigint,
    created_at double precision NOT NULL,
    model_seq bigint,
    CONSTRAINT ck_idempotency_keys_one CHECK (((job_seq IS NULL) <> (model_seq IS NULL)))
);
CREATE TABLE public.jobs (
    seq bigint NOT NULL,
    id character varying(32) NOT NULL,
    order_key character varying(64) NOT NULL,
    workload_id bigint NOT NULL,
    target text NOT NULL,
    search text NOT NULL,
    on_existing text NOT NULL,
    trials_requested integer NOT NULL,
    budget_seconds double precision,
    seed bigint,
    state text NOT NULL,
    cancel_requested boolean NOT NULL,
    attempt integer NOT NULL,
    released integer NOT NULL,
    worker text,
    lease_expires_at double precision,
    trials_measured integer NOT NULL,
    trials_ok integer NOT NULL,
    trials_failed integer NOT NULL,
    device_id bigint,
    best json,
    eta_seconds double precision,
    error text,
    created_at double precision NOT NULL,
    started_at double precision,
    finished_at double precision,
    patience integer,
    warm_start boolean DEFAULT true NOT NULL,
    warmed json,
    ordered_by text,
    templates json,
    label text,
    label_folded text,
    own_order boolean DEFAULT true NOT NULL,
    baselines text DEFAULT 'all'::text NOT NULL,
    for_device text,
    CONSTRAINT ck_jobs_state CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text])))
);
CREATE SEQUENCE public.jobs_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.jobs_seq_seq OWNED BY public.jobs.seq;
CREATE TABLE public.ladders (
    id bigint NOT NULL,
    workload_id bigint NOT NULL,
    device_id bigint NOT NULL,
    rows json NOT NULL,
    documents json NOT NULL,
    clocks json NOT NULL,
    versions json NOT NULL,
    climbed_at double precision NOT NULL
);
CREATE SEQUENCE public.ladders_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.ladders_id_seq OWNED BY public.ladders.id;
CREATE TABLE public.listed_configs (
    job_seq bigint NOT NULL,
    place integer NOT NULL,
    template_version integer NOT NULL,
    config json NOT NULL,
    source json NOT NULL
);
CREATE TABLE public.model_layers (
    model_seq bigint NOT NULL,
    place integer NOT NULL,
    job_seq bigint NOT NULL,
    calls integer NOT NULL
);
CREATE TABLE public.models (
    seq bigint NOT NULL,
    id character varying(32) NOT NULL,
    name text NOT NULL,
    terms json NOT NULL,
    created_at double precision NOT NULL,
    cancelled_at double precision
);
CREATE SEQUENCE public.models_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.models_seq_seq OWNED BY public.models.seq;
CREATE TABLE public.peer_times (
    id bigint NOT NULL,
    workload_id bigint NOT NULL,
    device_id bigint NOT NULL,
    baselines text NOT NULL,
    versions json NOT NULL,
    rows json NOT NULL,
    measured_at double precision NOT NULL
);
CREATE SEQUENCE public.peer_times_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.peer_times_id_seq OWNED BY public.peer_times.id;
CREATE TABLE public.signers (
    public_key character varying(64) NOT NULL,
    host text NOT NULL,
    created_at double precision NOT NULL
);
CREATE TABLE public.trial_sums (
    job_seq bigint NOT NULL,
    status text NOT NULL,
    trials integer NOT NULL,
    schedule_seconds double precision NOT NULL,
    build_seconds double precision NOT NULL,
    check_seconds double precision NOT NULL,
    run_seconds double precision NOT NULL
);
CREATE TABLE public.trials (
    id bigint NOT NULL,
    job_seq bigint NOT NULL,
    number integer NOT NULL,
    workload_id bigint NOT NULL,
    device_id bigint NOT NULL,
    tvm_version text NOT NULL,
    template text NOT NULL,
    template_version integer NOT NULL,
    config_key character varying(32) NOT NULL,
    config json NOT NULL,
    status text NOT NULL,
    time_us double precision,
    timing json,
    max_error double precision,
    error text,
    seconds json NOT NULL,
    created_at double precision NOT NULL
);
CREATE SEQUENCE public.trials_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trials_id_seq OWNED BY public.trials.id;
CREATE TABLE public.workers (
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    device_id bigint,
    version text NOT NULL,
    job_id character varying(32),
    started_at double precision NOT NULL,
    seen_at double precision NOT NULL
);
CREATE TABLE public.workloads (
    id bigint NOT NULL,
    key text NOT NULL,
    operator text NOT NULL,
    workload json NOT NULL
);
CREATE SEQUENCE public.workloads_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.workloads_id_seq OWNED BY public.workloads.id;
ALTER TABLE ONLY public.api_keys ALTER COLUMN id SET DEFAULT nextval('public.api_keys_id_seq'::regclass);
ALTER TABLE ONLY public.bests ALTER COLUMN id SET DEFAULT nextval('public.bests_id_seq'::regclass);
ALTER TABLE ONLY public.devices ALTER COLUMN id SET DEFAULT nextval('public.devices_id_seq'::regclass);
ALTER TABLE ONLY public.jobs ALTER COLUMN seq SET DEFAULT nextval('public.jobs_seq_seq'::regclass);
ALTER TABLE ONLY public.ladders ALTER COLUMN id SET DEFAULT nextval('public.ladders_id_seq'::regclass);
ALTER TABLE ONLY public.models ALTER COLUMN seq SET DEFAULT nextval('public.models_seq_seq'::regclass);
ALTER TABLE ONLY public.peer_times ALTER COLUMN id SET DEFAULT nextval('public.peer_times_id_seq'::regclass);
ALTER TABLE ONLY public.trials ALTER COLUMN id SET DEFAULT nextval('public.trials_id_seq'::regclass);
ALTER TABLE ONLY public.workloads ALTER COLUMN id SET DEFAULT nextval('public.workloads_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0013');
INSERT INTO public.api_keys VALUES (1, 'ci', '62623e5efbdba23526b0d850eadf5fabc6a8e0a932507ab64d306be54e123ad5', 'submit', 1795733115.028267, NULL, NULL);
INSERT INTO public.api_keys VALUES (2, 'guest', '27e92c097303a501f8647c0cde9f34f8752d7ec1285f86e8c1d3df5cbd249c2f', 'read', 1795733115.034204, 1796337915.03421, NULL);
INSERT INTO public.api_keys VALUES (3, 'old', '641b02c135e4d17a7241b996e0b004fede9cbb9ef1ee1d83eb0e0014206134e7', 'admin', 1795733115.037518, NULL, 1795733115.043968);
INSERT INTO public.artifacts VALUES ('1a5048c51c3689ba9c3113bcfbf1a3268737ac2a43f5af06e2bcb0b134131998', 264, 'library', 'application/x-sharedlib', '\x7f454c4602010100000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1795733114.760695);
INSERT INTO public.artifacts VALUES ('5ea8dfba1cbac3b38d09daa972727266484f1ee7b001709759497cee2aca7b58', 45, 'source', 'text/x-llvm', '\x3b20c2b52d6b65726e656c0a646566696e6520766f696420406d61696e2829207b2072657420766f6964207d0a', 1795733114.762733);
INSERT INTO public.artifacts VALUES ('1423572884bde54cd0cd740fb9723d59d39b5c64db4d551a1a0dd65b6e7533da', 61, 'manifest', 'application/json', '\x7b22636f6e666967223a207b2274656d706c617465223a2022646972656374222c20226c616e6573223a2031362c20226f757470757473223a20347d7d', 1795733114.763751);
INSERT INTO public.artifacts VALUES ('2eb3234bcce05a92b310345b915e66aff14a169189e64076ae4fcff5c2d0f3c9', 26, 'record', 'application/json', '\x5b5b22776f726b6c6f6164225d2c205b227265636f7264225d5d', 1795733114.765012);
INSERT INTO public.best_artifacts VALUES (1, 'library', '1a5048c51c3689ba9c3113bcfbf1a3268737ac2a43f5af06e2bcb0b134131998');
INSERT INTO public.best_artifacts VALUES (1, 'source', '5ea8dfba1cbac3b38d09daa972727266484f1ee7b001709759497cee2aca7b58');
INSERT INTO public.best_artifacts VALUES (1, 'manifest', '1423572884bde54cd0cd740fb9723d59d39b5c64db4d551a1a0dd65b6e7533da');
INSERT INTO public.best_artifacts VALUES (1, 'record', '2eb3234bcce05a92b310345b915e66aff14a169189e64076ae4fcff5c2d0f3c9');
INSERT INTO public.bests VALUES (1, 1, 1, 1, 'direct', 1, '0.27.0.post1', '{"template":"direct","lanes":16,"outputs":4}', 1.5, '{"warm":{"median_us":1.5},"cold":{"median_us":4.25}}', 600, '{"bound":"compute"}', 1e-07, '[{"name":"numpy","time_us":300.0,"speedup":200.0}]', 4, '{"tvm":"0.27.0.post1"}', 1795733114.772277, 0, '');
INSERT INTO public.devices VALUES (1, 'a8d2b6d1e87fedd7c0ab4e2f8aabe104308954f4016658041c0c8716aaefccb6', 'cpu', 'AMD EPYC (znver5)', 'x86_64-v4', 8000000000, '', '{"units":2}');
INSERT INTO public.devices VALUES (2, '2442dbfcfa9d9e8a4d29912d36478d02933f0a422a53ad940a0ab0ff3352d49e', 'cuda', 'NVIDIA H200', 'sm_90', 150000000000, '580.1', '{"units":132}');
INSERT INTO public.idempotency_keys VALUES ('', 'a-key-of-68', 'e04885fa87476a67d7f5cd5c1ee751050d62db4d3ac78092e18b763acaae13f4', 5, 1795733114.967474, NULL);
INSERT INTO public.idempotency_keys VALUES ('', 'a-key-of-a-model', '07685d3739e843f32ea3fb0bee65bb4f3048ad302b7f2092b47305d8279a0efe', NULL, 1795733115.020676, 1);
INSERT INTO public.jobs VALUES (1, '56915328aea7446895579d865d5ed076', 'f818994edd2ec187b8b15bf6e2f0d9e37754ed5a0872b9ac6463e24cc69d09a0', 1, 'auto', 'xgb', 'retune', 4, NULL, NULL, 'succeeded', false, 1, 0, 'host-1-abc', NULL, 4, 2, 2, 1, '{"config":{"template":"direct","lanes":16,"outputs":4},"time_us":1.5,"gflops":600.0}', NULL, NULL, 1795733114.715799, 1795733114.730716, 1795733114.782782, 7, false, NULL, NULL, NULL, 'Größe 64', 'grösse 64', true, 'all', NULL);
INSERT INTO public.jobs VALUES (2, '30f9773cbaa04c9fb4edd498051cbaf8', '808d95b8d2bbb40746c32a70f78e1c2b492b11dcc9aac98ebb5de49b959d63c8', 2, 'auto', 'xgb', 'retune', 4, NULL, NULL, 'failed', false, 1, 0, 'host-2-def', NULL, 0, 0, 0, NULL, NULL, NULL, 'LLVM: „zu groß“ – 2 × 3 > 5
line 2; it''s over; --
', 1795733114.795691, 1795733114.804215, 1795733114.822235, NULL, true, NULL, NULL, NULL, NULL, NULL, true, 'all', NULL);
INSERT INTO public.jobs VALUES (3, '5104ff5cd4ff40418b08de321025fc6e', 'c892a744d63b0a020cd2927896e98e3454c466a34acfdb7591768e6d749bec21', 3, 'auto', 'xgb', 'retune', 4, NULL, NULL, 'cancelled', true, 1, 0, 'host-2-def', NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 1795733114.829725, 1795733114.834036, 1795733114.851242, NULL, true, NULL, NULL, NULL, NULL, NULL, true, 'all', NULL);
INSERT INTO public.jobs VALUES (4, 'a688c2afa4504a1abef52401cd1a58f2', '906299209726f43f8fe0af3cf4bb0a7d593d4472ca0a042ffde10ef9e290a56a', 4, 'auto', 'xgb', 'retune', 4, NULL, NULL, 'running', false, 1, 0, 'host-2-def', 1480373114.872577, 0, 0, 0, NULL, NULL, NULL, NULL, 1795733114.856057, 1795733114.861263, NULL, NULL, true, NULL, NULL, NULL, NULL, NULL, true, 'all', NULL);
INSERT INTO public.jobs VALUES (5, '3acffd6aabd34654924f4a73322d225c', 'e04885fa87476a67d7f5cd5c1ee751050d62db4d3ac78092e18b763acaae13f4', 5, 'cpu', 'xgb', 'retune', 4, NULL, NULL, 'queued', false, 0, 0, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 1795733114.881449, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, NULL, true, 'all', NULL);
INSERT INTO public.jobs VALUES (6, '2c21020342e24a00a11b80112f64b6b4', 'b9d58d78afc7a0e0c4d217dd6ad94610eeceac9349a3775fe38c547c0ca7d4db', 6, 'auto', 'xgb', 'retune', 4, 60.5, 1099511627776, 'queued', false, 0, 0, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 1795733114.975351, NULL, NULL, NULL, true, NULL, NULL, '["direct"]', NULL, NULL, true, 'all', 'NVIDIA H200');
INSERT INTO public.jobs VALUES (7, 'b3e3ae78dd4e4c6b9194de2383ddf195', 'ea5d771574910c5a0f8276cfbd49e19cb8776d50388f6745cf643131b612f6e2', 8, 'cpu', 'imported', 'retune', 1, NULL, NULL, 'queued', false, 0, 0, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 1795733114.999352, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, true, 'all', NULL);
INSERT INTO public.jobs VALUES (8, '383c555810104d798da7119cd0a3f99d', '2b38e90227029d0f7be47163b6c01b36e35b6a3f08e16e08c40581bbbb40ff12', 9, 'auto', 'xgb', 'retune', 4, 60.5, 1099511627776, 'queued', false, 0, 0, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 1795733115.013574, NULL, NULL, NULL, true, NULL, NULL, '["direct"]', NULL, NULL, false, 'all', 'NVIDIA H200');
INSERT INTO public.ladders VALUES (1, 1, 1, '[{"name":"naive","time_us":30.0}]', '[{"number":0,"title":"One thread an output"}]', '{}', '{"tvm":"0.27.0.post1"}', 1795733114.992906);
INSERT INTO public.listed_configs VALUES (7, 0, 1, '{"template":"direct","lanes":8}', '{"line":3}');
INSERT INTO public.model_layers VALUES (1, 0, 6, 3);
INSERT INTO public.model_layers VALUES (1, 1, 8, 1);
INSERT INTO public.models VALUES (1, '1112e57460074eefa6fc83726db5fea4', 'Netz Größe S', '{"trials":4,"warm_start":true,"target":"auto","for_device":"NVIDIA H200","search":"xgb","on_existing":"retune","budget_seconds":60.5,"seed":1099511627776,"patience":null,"templates":["direct"],"baselines":"all","label":null}', 1795733115.015569, NULL);
INSERT INTO public.peer_times VALUES (1, 1, 1, 'all', '{"numpy":"2.5.2"}', '[{"name":"numpy","time_us":300.0,"level":"call"}]', 1795733114.787441);
INSERT INTO public.signers VALUES ('5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', 'host', 1795733114.985184);
INSERT INTO public.trial_sums VALUES (1, 'ok', 2, 0.5, 1, 0, 0);
INSERT INTO public.trial_sums VALUES (1, 'run_timeout', 1, 0.25, 0.5, 0, 0);
INSERT INTO public.trial_sums VALUES (1, 'wrong_answer', 1, 0.25, 0.5, 0, 0);
INSERT INTO public.trial_sums VALUES (2, 'build_error', 1, 0.25, 0.5, 0, 0);
INSERT INTO public.trial_sums VALUES (3, 'ok', 1, 0.25, 0.5, 0, 0);
INSERT INTO public.trial_sums VALUES (4, 'ok', 1, 0.25, 0.5, 0, 0);
INSERT INTO public.trials VALUES (1, 1, 1, 1, 1, '0.27.0.post1', 'direct', 1, '8919510e922fbfe95949349a5abfe418', '{"template":"direct","lanes":16,"outputs":4}', 'ok', 1.5, '{"warm":{"median_us":1.5}}', 1e-07, NULL, '{"schedule":0.25,"build":0.5}', 1795733114.737432);
INSERT INTO public.trials VALUES (2, 1, 2, 1, 1, '0.27.0.post1', 'direct', 1, '85995f8fbef854a0bf1384a8d85160b9', '{"template":"direct","lanes":8,"outputs":4}', 'ok', 2.5, '{"warm":{"median_us":2.5}}', 1e-07, NULL, '{"schedule":0.25,"build":0.5}', 1795733114.737432);
INSERT INTO public.trials VALUES (3, 1, 3, 1, 1, '0.27.0.post1', 'direct', 1, '1fbef1336e00af361d7762e26e28fb02', '{"template":"direct","lanes":4,"outputs":4}', 'wrong_answer', NULL, NULL, NULL, 'LLVM: „zu groß“ – 2 × 3 > 5
line 2; it''s over; --
', '{"schedule":0.25,"build":0.5}', 1795733114.737432);
INSERT INTO public.trials VALUES (4, 1, 4, 1, 1, '0.27.0.post1', 'direct', 1, 'ee7e9b9cc2c1b9db403b0cd2990e6676', '{"template":"direct","lanes":2,"outputs":4}', 'run_timeout', NULL, NULL, NULL, 'LLVM: „zu groß“ – 2 × 3 > 5
line 2; it''s over; --
', '{"schedule":0.25,"build":0.5}', 1795733114.737432);
INSERT INTO public.trials VALUES (5, 2, 1, 2, 2, '0.27.0.post1', 'direct', 1, '8919510e922fbfe95949349a5abfe418', '{"template":"direct","lanes":16,"outputs":4}', 'build_error', NULL, NULL, NULL, 'LLVM: „zu groß“ – 2 × 3 > 5
line 2; it''s over; --
', '{"schedule":0.25,"build":0.5}', 1795733114.809171);
INSERT INTO public.trials VALUES (6, 3, 1, 3, 2, '0.27.0.post1', 'direct', 1, '8919510e922fbfe95949349a5abfe418', '{"template":"direct","lanes":16,"outputs":4}', 'ok', 1.5, '{"warm":{"median_us":1.5}}', 1e-07, NULL, '{"schedule":0.25,"build":0.5}', 1795733114.838391);
INSERT INTO public.trials VALUES (7, 4, 1, 4, 2, '0.27.0.post1', 'direct', 1, '8919510e922fbfe95949349a5abfe418', '{"template":"direct","lanes":16,"outputs":4}', 'ok', 1.5, '{"warm":{"median_us":1.5}}', 1e-07, NULL, '{"schedule":0.25,"build":0.5}', 1795733114.865086);
INSERT INTO public.workers VALUES ('host-1-abc', 'host', 1, 1, '0.1.0', NULL, 1795733114.980707, 1795733114.980716);
INSERT INTO public.workloads VALUES (1, '{"M":64,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}', 'conv1d', '{"M":64,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO public.workloads VALUES (2, '{"M":65,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}', 'conv1d', '{"M":65,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO public.workloads VALUES (3, '{"M":66,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}', 'conv1d', '{"M":66,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO public.workloads VALUES (4, '{"M":67,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}', 'conv1d', '{"M":67,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO public.workloads VALUES (5, '{"M":68,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}', 'conv1d', '{"M":68,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO public.workloads VALUES (6, '{"M":69,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}', 'conv1d', '{"M":69,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO public.workloads VALUES (8, '{"M":70,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}', 'conv1d', '{"M":70,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO public.workloads VALUES (9, '{"M":71,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}', 'conv1d', '{"M":71,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
SELECT pg_catalog.setval('public.api_keys_id_seq', 3, true);
SELECT pg_catalog.setval('public.bests_id_seq', 1, true);
SELECT pg_catalog.setval('public.devices_id_seq', 2, true);
SELECT pg_catalog.setval('public.jobs_seq_seq', 8, true);
SELECT pg_catalog.setval('public.ladders_id_seq', 1, true);
SELECT pg_catalog.setval('public.models_seq_seq', 1, true);
SELECT pg_catalog.setval('public.peer_times_id_seq', 1, true);
SELECT pg_catalog.setval('public.trials_id_seq', 7, true);
SELECT pg_catalog.setval('public.workloads_id_seq', 9, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.artifacts
    ADD CONSTRAINT artifacts_pkey PRIMARY KEY (sha256);
ALTER TABLE ONLY public.best_artifacts
    ADD CONSTRAINT best_artifacts_pkey PRIMARY KEY (best_id, kind);
ALTER TABLE ONLY public.bests
    ADD CONSTRAINT bests_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.devices
    ADD CONSTRAINT devices_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (ordered_by, key);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.ladders
    ADD CONSTRAINT ladders_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.listed_configs
    ADD CONSTRAINT listed_configs_pkey PRIMARY KEY (job_seq, place);
ALTER TABLE ONLY public.model_layers
    ADD CONSTRAINT model_layers_pkey PRIMARY KEY (model_seq, place);
ALTER TABLE ONLY public.models
    ADD CONSTRAINT models_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY public.peer_times
    ADD CONSTRAINT peer_times_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.signers
    ADD CONSTRAINT signers_pkey PRIMARY KEY (public_key);
ALTER TABLE ONLY public.trial_sums
    ADD CONSTRAINT trial_sums_pkey PRIMARY KEY (job_seq, status);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT trials_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT uq_api_keys_hash UNIQUE (hash);
ALTER TABLE ONLY public.bests
    ADD CONSTRAINT uq_bests_workload_device UNIQUE (workload_id, device_id, threads, templates);
ALTER TABLE ONLY public.devices
    ADD CONSTRAINT uq_devices_identity UNIQUE (identity);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT uq_jobs_id UNIQUE (id);
ALTER TABLE ONLY public.ladders
    ADD CONSTRAINT uq_ladders_workload_device UNIQUE (workload_id, device_id);
ALTER TABLE ONLY public.models
    ADD CONSTRAINT uq_models_id UNIQUE (id);
ALTER TABLE ONLY public.peer_times
    ADD CONSTRAINT uq_peer_times_workload_device UNIQUE (workload_id, device_id, baselines);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT uq_trials_measured_once UNIQUE (workload_id, device_id, tvm_version, template, template_version, config_key);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT uq_trials_number UNIQUE (job_seq, number);
ALTER TABLE ONLY public.workloads
    ADD CONSTRAINT uq_workloads_key UNIQUE (key);
ALTER TABLE ONLY public.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.workloads
    ADD CONSTRAINT workloads_pkey PRIMARY KEY (id);
CREATE INDEX ix_best_artifacts_sha256 ON public.best_artifacts USING btree (sha256);
CREATE INDEX ix_idempotency_keys_created ON public.idempotency_keys USING btree (created_at);
CREATE INDEX ix_jobs_claim ON public.jobs USING btree (seq) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text]));
CREATE INDEX ix_jobs_ended ON public.jobs USING btree (state, seq) WHERE (state = ANY (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text]));
CREATE INDEX ix_jobs_workload ON public.jobs USING btree (workload_id);
CREATE INDEX ix_model_layers_job ON public.model_layers USING btree (job_seq);
CREATE INDEX ix_workloads_operator ON public.workloads USING btree (operator);
CREATE UNIQUE INDEX uq_api_keys_name ON public.api_keys USING btree (name) WHERE (revoked_at IS NULL);
CREATE UNIQUE INDEX uq_jobs_order ON public.jobs USING btree (order_key) WHERE ((state = ANY (ARRAY['queued'::text, 'running'::text])) AND (NOT cancel_requested));
ALTER TABLE ONLY public.best_artifacts
    ADD CONSTRAINT fk_best_artifacts_artifact FOREIGN KEY (sha256) REFERENCES public.artifacts(sha256);
ALTER TABLE ONLY public.best_artifacts
    ADD CONSTRAINT fk_best_artifacts_best FOREIGN KEY (best_id) REFERENCES public.bests(id);
ALTER TABLE ONLY public.bests
    ADD CONSTRAINT fk_bests_device FOREIGN KEY (device_id) REFERENCES public.devices(id);
ALTER TABLE ONLY public.bests
    ADD CONSTRAINT fk_bests_job FOREIGN KEY (job_seq) REFERENCES public.jobs(seq);
ALTER TABLE ONLY public.bests
    ADD CONSTRAINT fk_bests_workload FOREIGN KEY (workload_id) REFERENCES public.workloads(id);
ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT fk_idempotency_keys_job FOREIGN KEY (job_seq) REFERENCES public.jobs(seq);
ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT fk_idempotency_keys_model FOREIGN KEY (model_seq) REFERENCES public.models(seq);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT fk_jobs_device FOREIGN KEY (device_id) REFERENCES public.devices(id);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT fk_jobs_workload FOREIGN KEY (workload_id) REFERENCES public.workloads(id);
ALTER TABLE ONLY public.ladders
    ADD CONSTRAINT fk_ladders_device FOREIGN KEY (device_id) REFERENCES public.devices(id);
ALTER TABLE ONLY public.ladders
    ADD CONSTRAINT fk_ladders_workload FOREIGN KEY (workload_id) REFERENCES public.workloads(id);
ALTER TABLE ONLY public.listed_configs
    ADD CONSTRAINT fk_listed_configs_job FOREIGN KEY (job_seq) REFERENCES public.jobs(seq);
ALTER TABLE ONLY public.model_layers
    ADD CONSTRAINT fk_model_layers_job FOREIGN KEY (job_seq) REFERENCES public.jobs(seq);
ALTER TABLE ONLY public.model_layers
    ADD CONSTRAINT fk_model_layers_model FOREIGN KEY (model_seq) REFERENCES public.models(seq);
ALTER TABLE ONLY public.peer_times
    ADD CONSTRAINT fk_peer_times_device FOREIGN KEY (device_id) REFERENCES public.devices(id);
ALTER TABLE ONLY public.peer_times
    ADD CONSTRAINT fk_peer_times_workload FOREIGN KEY (workload_id) REFERENCES public.workloads(id);
ALTER TABLE ONLY public.trial_sums
    ADD CONSTRAINT fk_trial_sums_job FOREIGN KEY (job_seq) REFERENCES public.jobs(seq);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT fk_trials_device FOREIGN KEY (device_id) REFERENCES public.devices(id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT fk_trials_job FOREIGN KEY (job_seq) REFERENCES public.jobs(seq);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT fk_trials_workload FOREIGN KEY (workload_id) REFERENCES public.workloads(id);
ALTER TABLE ONLY public.workers
    ADD CONSTRAINT fk_workers_device FOREIGN KEY (device_id) REFERENCES public.devices(id);
