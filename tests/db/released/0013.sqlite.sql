BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0013');
CREATE TABLE api_keys (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	scope TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	expires_at DOUBLE, 
	revoked_at DOUBLE, 
	CONSTRAINT uq_api_keys_hash UNIQUE (hash), 
	CONSTRAINT ck_api_keys_scope CHECK (scope IN ('read', 'submit', 'admin'))
);
INSERT INTO "api_keys" VALUES(1,'ci','f53de6c50a65b114539bf6cf2d9db1aaac0d8c2880ed462eb03d9e60e73b5b06','submit',1.79573311308601498608e+09,NULL,NULL);
INSERT INTO "api_keys" VALUES(2,'guest','49959061b6d38c13de57861d625ec02b3bfebd4ab3ffdd58b0a405fe7fedaca3','read',1.7957331130899980068e+09,1.79633791308999800689e+09,NULL);
INSERT INTO "api_keys" VALUES(3,'old','48de9ac7fb0fa6ee37af58a66abb610e6ba01aacf9cbf50f208212672cd69c9c','admin',1.79573311309200978275e+09,NULL,1.79573311309398126606e+09);
CREATE TABLE artifacts (
	sha256 VARCHAR(64) NOT NULL, 
	size BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	media_type TEXT NOT NULL, 
	content BLOB NOT NULL, 
	created_at DOUBLE NOT NULL, 
	PRIMARY KEY (sha256)
);
INSERT INTO "artifacts" VALUES('1a5048c51c3689ba9c3113bcfbf1a3268737ac2a43f5af06e2bcb0b134131998',264,'library','application/x-sharedlib',X'7F454C4602010100000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F404142434445464748494A4B4C4D4E4F505152535455565758595A5B5C5D5E5F606162636465666768696A6B6C6D6E6F707172737475767778797A7B7C7D7E7F808182838485868788898A8B8C8D8E8F909192939495969798999A9B9C9D9E9FA0A1A2A3A4A5A6A7A8A9AAABACADAEAFB0B1B2B3B4B5B6B7B8B9BABBBCBDBEBFC0C1C2C3C4C5C6C7C8C9CACBCCCDCECFD0D1D2D3D4D5D6D7D8D9DADBDCDDDEDFE0E1E2E3E4E5E6E7E8E9EAEBECEDEEEFF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF',1.79573311299899077411e+09);
INSERT INTO "artifacts" VALUES('5ea8dfba1cbac3b38d09daa972727266484f1ee7b001709759497cee2aca7b58',45,'source','text/x-llvm',X'3B20C2B52D6B65726E656C0A646566696E6520766F696420406D61696E2829207B2072657420766F6964207D0A',1.79573311299899077411e+09);
INSERT INTO "artifacts" VALUES('1423572884bde54cd0cd740fb9723d59d39b5c64db4d551a1a0dd65b6e7533da',61,'manifest','application/json',X'7B22636F6E666967223A207B2274656D706C617465223A2022646972656374222C20226C616E6573223A2031362C20226F757470757473223A20347D7D',1.7957331129999966621e+09);
INSERT INTO "artifacts" VALUES('2eb3234bcce05a92b310345b915e66aff14a169189e64076ae4fcff5c2d0f3c9',26,'record','application/json',X'5B5B22776F726B6C6F6164225D2C205B227265636F7264225D5D',1.7957331129999966621e+09);
CREATE TABLE best_artifacts (
	best_id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	PRIMARY KEY (best_id, kind), 
	CONSTRAINT fk_best_artifacts_best FOREIGN KEY(best_id) REFERENCES bests (id), 
	CONSTRAINT fk_best_artifacts_artifact FOREIGN KEY(sha256) REFERENCES artifacts (sha256)
);
INSERT INTO "best_artifacts" VALUES(1,'library','1a5048c51c3689ba9c3113bcfbf1a3268737ac2a43f5af06e2bcb0b134131998');
INSERT INTO "best_artifacts" VALUES(1,'source','5ea8dfba1cbac3b38d09daa972727266484f1ee7b001709759497cee2aca7b58');
INSERT INTO "best_artifacts" VALUES(1,'manifest','1423572884bde54cd0cd740fb9723d59d39b5c64db4d551a1a0dd65b6e7533da');
INSERT INTO "best_artifacts" VALUES(1,'record','2eb3234bcce05a92b310345b915e66aff14a169189e64076ae4fcff5c2d0f3c9');
CREATE TABLE bests (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	workload_id INTEGER NOT NULL, 
	device_id INTEGER NOT NULL, 
	job_seq INTEGER NOT NULL, 
	template TEXT NOT NULL, 
	template_version INTEGER NOT NULL, 
	tvm_version TEXT NOT NULL, 
	config JSON NOT NULL, 
	time_us DOUBLE NOT NULL, 
	timing JSON NOT NULL, 
	gflops DOUBLE, 
	roofline JSON NOT NULL, 
	max_error DOUBLE, 
	baselines JSON NOT NULL, 
	trials_measured INTEGER NOT NULL, 
	versions JSON NOT NULL, 
	tuned_at DOUBLE NOT NULL, 
	threads INTEGER DEFAULT '0' NOT NULL, 
	templates TEXT DEFAULT '' NOT NULL, 
	CONSTRAINT fk_bests_workload FOREIGN KEY(workload_id) REFERENCES workloads (id), 
	CONSTRAINT fk_bests_device FOREIGN KEY(device_id) REFERENCES devices (id), 
	CONSTRAINT fk_bests_job FOREIGN KEY(job_seq) REFERENCES jobs (seq), 
	CONSTRAINT uq_bests_workload_device UNIQUE (workload_id, device_id, threads, templates)
);
INSERT INTO "bests" VALUES(1,1,1,1,'direct',1,'0.27.0.post1','{"template":"direct","lanes":16,"outputs":4}',1.5,'{"warm":{"median_us":1.5},"cold":{"median_us":4.25}}',600.0,'{"bound":"compute"}',1.0e-07,'[{"name":"numpy","time_us":300.0,"speedup":200.0}]',4,'{"tvm":"0.27.0.post1"}',1.79573311300301408774e+09,0,'');
CREATE TABLE devices (
	id INTEGER NOT NULL, 
	identity VARCHAR(64) NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	arch TEXT NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	driver TEXT NOT NULL, 
	limits JSON NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_devices_identity UNIQUE (identity)
);
INSERT INTO "devices" VALUES(1,'a8d2b6d1e87fedd7c0ab4e2f8aabe104308954f4016658041c0c8716aaefccb6','cpu','AMD EPYC (znver5)','x86_64-v4',8000000000,'','{"units":2}');
INSERT INTO "devices" VALUES(2,'2442dbfcfa9d9e8a4d29912d36478d02933f0a422a53ad940a0ab0ff3352d49e','cuda','NVIDIA H200','sm_90',150000000000,'580.1','{"units":132}');
CREATE TABLE "idempotency_keys" (
	ordered_by TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	order_key VARCHAR(64) NOT NULL, 
	job_seq INTEGER, 
	created_at DOUBLE NOT NULL, 
	model_seq INTEGER, 
	PRIMARY KEY (ordered_by, "key"), 
	CONSTRAINT fk_idempotency_keys_job FOREIGN KEY(job_seq) REFERENCES jobs (seq), 
	CONSTRAINT fk_idempotency_keys_model FOREIGN KEY(model_seq) REFERENCES models (seq), 
	CONSTRAINT ck_idempotency_keys_one CHECK ((job_seq IS NULL) <> (model_seq IS NULL))
);
INSERT INTO "idempotency_keys" VALUES('','a-key-of-68','e04885fa87476a67d7f5cd5c1ee751050d62db4d3ac78092e18b763acaae13f4',5,1.7957331130539894104e+09,NULL);
INSERT INTO "idempotency_keys" VALUES('','a-key-of-a-model','07685d3739e843f32ea3fb0bee65bb4f3048ad302b7f2092b47305d8279a0efe',NULL,1.79573311308199167249e+09,1);
CREATE TABLE jobs (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(32) NOT NULL, 
	order_key VARCHAR(64) NOT NULL, 
	workload_id INTEGER NOT NULL, 
	target TEXT NOT NULL, 
	search TEXT NOT NULL, 
	on_existing TEXT NOT NULL, 
	trials_requested INTEGER NOT NULL, 
	budget_seconds DOUBLE, 
	seed BIGINT, 
	state TEXT NOT NULL, 
	cancel_requested BOOLEAN NOT NULL, 
	attempt INTEGER NOT NULL, 
	released INTEGER NOT NULL, 
	worker TEXT, 
	lease_expires_at DOUBLE, 
	trials_measured INTEGER NOT NULL, 
	trials_ok INTEGER NOT NULL, 
	trials_failed INTEGER NOT NULL, 
	device_id INTEGER, 
	best JSON, 
	eta_seconds DOUBLE, 
	error TEXT, 
	created_at DOUBLE NOT NULL, 
	started_at DOUBLE, 
	finished_at DOUBLE, 
	patience INTEGER, 
	warm_start BOOLEAN DEFAULT 1 NOT NULL, 
	warmed JSON, 
	ordered_by TEXT, 
	templates JSON, 
	label TEXT, 
	label_folded TEXT, own_order BOOLEAN DEFAULT 1 NOT NULL, baselines TEXT DEFAULT 'all' NOT NULL, for_device TEXT, 
	CONSTRAINT fk_jobs_workload FOREIGN KEY(workload_id) REFERENCES workloads (id), 
	CONSTRAINT fk_jobs_device FOREIGN KEY(device_id) REFERENCES devices (id), 
	CONSTRAINT uq_jobs_id UNIQUE (id), 
	CONSTRAINT ck_jobs_state CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled'))
);
INSERT INTO "jobs" VALUES(1,'23704f7429aa4e9cb7318e527e5b7485','f818994edd2ec187b8b15bf6e2f0d9e37754ed5a0872b9ac6463e24cc69d09a0',1,'auto','xgb','retune',4,NULL,NULL,'succeeded',0,1,0,'host-1-abc',NULL,4,2,2,1,'{"config":{"template":"direct","lanes":16,"outputs":4},"time_us":1.5,"gflops":600.0}',NULL,NULL,1.79573311297798895837e+09,1.79573311298700118068e+09,1.79573311300401973729e+09,7,0,NULL,NULL,NULL,'Größe 64','grösse 64',1,'all',NULL);
INSERT INTO "jobs" VALUES(2,'4ad18540f0324053b5e737edb0ad2164','808d95b8d2bbb40746c32a70f78e1c2b492b11dcc9aac98ebb5de49b959d63c8',2,'auto','xgb','retune',4,NULL,NULL,'failed',0,1,0,'host-2-def',NULL,0,0,0,NULL,NULL,NULL,'LLVM: „zu groß“ – 2 × 3 > 5
line 2; it''s over; --
',1.79573311300800299641e+09,1.79573311301500344273e+09,1.79573311302099823953e+09,NULL,1,NULL,NULL,NULL,NULL,NULL,1,'all',NULL);
INSERT INTO "jobs" VALUES(3,'72fa471349f54d75962bc7c29cd79cd8','c892a744d63b0a020cd2927896e98e3454c466a34acfdb7591768e6d749bec21',3,'auto','xgb','retune',4,NULL,NULL,'cancelled',1,1,0,'host-2-def',NULL,0,0,0,NULL,NULL,NULL,NULL,1.79573311302300977704e+09,1.79573311302401566504e+09,1.79573311303101634979e+09,NULL,1,NULL,NULL,NULL,NULL,NULL,1,'all',NULL);
INSERT INTO "jobs" VALUES(4,'7115662efe3d462c8a35d07f6f8a6eca','906299209726f43f8fe0af3cf4bb0a7d593d4472ca0a042ffde10ef9e290a56a',4,'auto','xgb','retune',4,NULL,NULL,'running',0,1,0,'host-2-def',1.48037311304799461359e+09,0,0,0,NULL,NULL,NULL,NULL,1.79573311303298759457e+09,1.79573311303499937052e+09,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,1,'all',NULL);
INSERT INTO "jobs" VALUES(5,'16b771eed07241448e3154338c366c1f','e04885fa87476a67d7f5cd5c1ee751050d62db4d3ac78092e18b763acaae13f4',5,'cpu','xgb','retune',4,NULL,NULL,'queued',0,0,0,NULL,NULL,0,0,0,NULL,NULL,NULL,NULL,1.79573311305201792709e+09,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,1,'all',NULL);
INSERT INTO "jobs" VALUES(6,'a3d7dffb0f6a4a6a96b46de46f9dd5fb','b9d58d78afc7a0e0c4d217dd6ad94610eeceac9349a3775fe38c547c0ca7d4db',6,'auto','xgb','retune',4,60.5,1099511627776,'queued',0,0,0,NULL,NULL,0,0,0,NULL,NULL,NULL,NULL,1.79573311305600118639e+09,NULL,NULL,NULL,1,NULL,NULL,'["direct"]',NULL,NULL,1,'all','NVIDIA H200');
INSERT INTO "jobs" VALUES(7,'789e727e3fbc4c8b9117a27d0a9668ea','ea5d771574910c5a0f8276cfbd49e19cb8776d50388f6745cf643131b612f6e2',7,'cpu','imported','retune',1,NULL,NULL,'queued',0,0,0,NULL,NULL,0,0,0,NULL,NULL,NULL,NULL,1.79573311307301974296e+09,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,1,'all',NULL);
INSERT INTO "jobs" VALUES(8,'608d6fc1e35e40b9886cdd15ed535360','2b38e90227029d0f7be47163b6c01b36e35b6a3f08e16e08c40581bbbb40ff12',8,'auto','xgb','retune',4,60.5,1099511627776,'queued',0,0,0,NULL,NULL,0,0,0,NULL,NULL,NULL,NULL,1.79573311307901430132e+09,NULL,NULL,NULL,1,NULL,NULL,'["direct"]',NULL,NULL,0,'all','NVIDIA H200');
CREATE TABLE ladders (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	workload_id INTEGER NOT NULL, 
	device_id INTEGER NOT NULL, 
	rows JSON NOT NULL, 
	documents JSON NOT NULL, 
	clocks JSON NOT NULL, 
	versions JSON NOT NULL, 
	climbed_at DOUBLE NOT NULL, 
	CONSTRAINT fk_ladders_workload FOREIGN KEY(workload_id) REFERENCES workloads (id), 
	CONSTRAINT fk_ladders_device FOREIGN KEY(device_id) REFERENCES devices (id), 
	CONSTRAINT uq_ladders_workload_device UNIQUE (workload_id, device_id)
);
INSERT INTO "ladders" VALUES(1,1,1,'[{"name":"naive","time_us":30.0}]','[{"number":0,"title":"One thread an output"}]','{}','{"tvm":"0.27.0.post1"}',1.79573311306899642946e+09);
CREATE TABLE listed_configs (
	job_seq INTEGER NOT NULL, 
	place INTEGER NOT NULL, 
	template_version INTEGER NOT NULL, 
	config JSON NOT NULL, 
	source JSON NOT NULL, 
	PRIMARY KEY (job_seq, place), 
	CONSTRAINT fk_listed_configs_job FOREIGN KEY(job_seq) REFERENCES jobs (seq)
);
INSERT INTO "listed_configs" VALUES(7,0,1,'{"template":"direct","lanes":8}','{"line":3}');
CREATE TABLE model_layers (
	model_seq INTEGER NOT NULL, 
	place INTEGER NOT NULL, 
	job_seq INTEGER NOT NULL, 
	calls INTEGER NOT NULL, 
	PRIMARY KEY (model_seq, place), 
	CONSTRAINT fk_model_layers_model FOREIGN KEY(model_seq) REFERENCES models (seq), 
	CONSTRAINT fk_model_layers_job FOREIGN KEY(job_seq) REFERENCES jobs (seq)
);
INSERT INTO "model_layers" VALUES(1,0,6,3);
INSERT INTO "model_layers" VALUES(1,1,8,1);
CREATE TABLE models (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(32) NOT NULL, 
	name TEXT NOT NULL, 
	terms JSON NOT NULL, 
	created_at DOUBLE NOT NULL, 
	cancelled_at DOUBLE, 
	CONSTRAINT uq_models_id UNIQUE (id)
);
INSERT INTO "models" VALUES(1,'1f40669891954db49433fb7a228c71e8','Netz Größe S','{"trials":4,"warm_start":true,"target":"auto","for_device":"NVIDIA H200","search":"xgb","on_existing":"retune","budget_seconds":60.5,"seed":1099511627776,"patience":null,"templates":["direct"],"baselines":"all","label":null}',1795733113.07998,NULL);
CREATE TABLE peer_times (
	id INTEGER NOT NULL, 
	workload_id INTEGER NOT NULL, 
	device_id INTEGER NOT NULL, 
	baselines TEXT NOT NULL, 
	versions JSON NOT NULL, 
	rows JSON NOT NULL, 
	measured_at DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT fk_peer_times_workload FOREIGN KEY(workload_id) REFERENCES workloads (id), 
	CONSTRAINT fk_peer_times_device FOREIGN KEY(device_id) REFERENCES devices (id), 
	CONSTRAINT uq_peer_times_workload_device UNIQUE (workload_id, device_id, baselines)
);
INSERT INTO "peer_times" VALUES(1,1,1,'all','{"numpy":"2.5.2"}','[{"name":"numpy","time_us":300.0,"level":"call"}]',1.79573311300599122047e+09);
CREATE TABLE signers (
	public_key VARCHAR(64) NOT NULL, 
	host TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	PRIMARY KEY (public_key)
);
INSERT INTO "signers" VALUES('5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e','host',1.7957331130599842072e+09);
CREATE TABLE trial_sums (
	job_seq INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	trials INTEGER NOT NULL, 
	schedule_seconds DOUBLE NOT NULL, 
	build_seconds DOUBLE NOT NULL, 
	check_seconds DOUBLE NOT NULL, 
	run_seconds DOUBLE NOT NULL, 
	PRIMARY KEY (job_seq, status), 
	CONSTRAINT fk_trial_sums_job FOREIGN KEY(job_seq) REFERENCES jobs (seq)
);
INSERT INTO "trial_sums" VALUES(1,'ok',2,0.5,1.0,0.0,0.0);
INSERT INTO "trial_sums" VALUES(1,'run_timeout',1,0.25,0.5,0.0,0.0);
INSERT INTO "trial_sums" VALUES(1,'wrong_answer',1,0.25,0.5,0.0,0.0);
INSERT INTO "trial_sums" VALUES(2,'build_error',1,0.25,0.5,0.0,0.0);
INSERT INTO "trial_sums" VALUES(3,'ok',1,0.25,0.5,0.0,0.0);
INSERT INTO "trial_sums" VALUES(4,'ok',1,0.25,0.5,0.0,0.0);
CREATE TABLE trials (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	job_seq INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	workload_id INTEGER NOT NULL, 
	device_id INTEGER NOT NULL, 
	tvm_version TEXT NOT NULL, 
	template TEXT NOT NULL, 
	template_version INTEGER NOT NULL, 
	config_key VARCHAR(32) NOT NULL, 
	config JSON NOT NULL, 
	status TEXT NOT NULL, 
	time_us DOUBLE, 
	timing JSON, 
	max_error DOUBLE, 
	error TEXT, 
	seconds JSON NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT fk_trials_job FOREIGN KEY(job_seq) REFERENCES jobs (seq), 
	CONSTRAINT fk_trials_workload FOREIGN KEY(workload_id) REFERENCES workloads (id), 
	CONSTRAINT fk_trials_device FOREIGN KEY(device_id) REFERENCES devices (id), 
	CONSTRAINT uq_trials_number UNIQUE (job_seq, number), 
	CONSTRAINT uq_trials_measured_once UNIQUE (workload_id, device_id, tvm_version, template, template_version, config_key)
);
INSERT INTO "trials" VALUES(1,1,1,1,1,'0.27.0.post1','direct',1,'8919510e922fbfe95949349a5abfe418','{"template":"direct","lanes":16,"outputs":4}','ok',1.5,'{"warm":{"median_us":1.5}}',1.0e-07,NULL,'{"schedule":0.25,"build":0.5}',1.79573311299001884457e+09);
INSERT INTO "trials" VALUES(2,1,2,1,1,'0.27.0.post1','direct',1,'85995f8fbef854a0bf1384a8d85160b9','{"template":"direct","lanes":8,"outputs":4}','ok',2.5,'{"warm":{"median_us":2.5}}',1.0e-07,NULL,'{"schedule":0.25,"build":0.5}',1.79573311299001884457e+09);
INSERT INTO "trials" VALUES(3,1,3,1,1,'0.27.0.post1','direct',1,'1fbef1336e00af361d7762e26e28fb02','{"template":"direct","lanes":4,"outputs":4}','wrong_answer',NULL,NULL,NULL,'LLVM: „zu groß“ – 2 × 3 > 5
line 2; it''s over; --
','{"schedule":0.25,"build":0.5}',1.79573311299001884457e+09);
INSERT INTO "trials" VALUES(4,1,4,1,1,'0.27.0.post1','direct',1,'ee7e9b9cc2c1b9db403b0cd2990e6676','{"template":"direct","lanes":2,"outputs":4}','run_timeout',NULL,NULL,NULL,'LLVM: „zu groß“ – 2 × 3 > 5
line 2; it''s over; --
','{"schedule":0.25,"build":0.5}',1.79573311299001884457e+09);
INSERT INTO "trials" VALUES(5,2,1,2,2,'0.27.0.post1','direct',1,'8919510e922fbfe95949349a5abfe418','{"template":"direct","lanes":16,"outputs":4}','build_error',NULL,NULL,NULL,'LLVM: „zu groß“ – 2 × 3 > 5
line 2; it''s over; --
','{"schedule":0.25,"build":0.5}',1.79573311301798081394e+09);
INSERT INTO "trials" VALUES(6,3,1,3,2,'0.27.0.post1','direct',1,'8919510e922fbfe95949349a5abfe418','{"template":"direct","lanes":16,"outputs":4}','ok',1.5,'{"warm":{"median_us":1.5}}',1.0e-07,NULL,'{"schedule":0.25,"build":0.5}',1.79573311302498126026e+09);
INSERT INTO "trials" VALUES(7,4,1,4,2,'0.27.0.post1','direct',1,'8919510e922fbfe95949349a5abfe418','{"template":"direct","lanes":16,"outputs":4}','ok',1.5,'{"warm":{"median_us":1.5}}',1.0e-07,NULL,'{"schedule":0.25,"build":0.5}',1.79573311303701114655e+09);
CREATE TABLE workers (
	name TEXT NOT NULL, 
	host TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	device_id INTEGER, 
	version TEXT NOT NULL, 
	job_id VARCHAR(32), 
	started_at DOUBLE NOT NULL, 
	seen_at DOUBLE NOT NULL, 
	PRIMARY KEY (name), 
	CONSTRAINT fk_workers_device FOREIGN KEY(device_id) REFERENCES devices (id)
);
INSERT INTO "workers" VALUES('host-1-abc','host',1,1,'0.1.0',NULL,1.79573311305901861184e+09,1.79573311305901861184e+09);
CREATE TABLE workloads (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	workload JSON NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_workloads_key UNIQUE ("key")
);
INSERT INTO "workloads" VALUES(1,'{"M":64,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}','conv1d','{"M":64,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO "workloads" VALUES(2,'{"M":65,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}','conv1d','{"M":65,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO "workloads" VALUES(3,'{"M":66,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}','conv1d','{"M":66,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO "workloads" VALUES(4,'{"M":67,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}','conv1d','{"M":67,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO "workloads" VALUES(5,'{"M":68,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}','conv1d','{"M":68,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO "workloads" VALUES(6,'{"M":69,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}','conv1d','{"M":69,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO "workloads" VALUES(7,'{"M":70,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}','conv1d','{"M":70,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
INSERT INTO "workloads" VALUES(8,'{"M":71,"N":3,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full","operator":"conv1d"}','conv1d','{"M":71,"N":3,"mode":"full","kind":"convolve","dtype":"float32","max_error":1e-05}');
CREATE INDEX ix_workloads_operator ON workloads (operator);
CREATE INDEX ix_jobs_claim ON jobs (seq) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX uq_jobs_order ON jobs (order_key) WHERE state IN ('queued', 'running') AND NOT cancel_requested;
CREATE INDEX ix_jobs_ended ON jobs (state, seq) WHERE state IN ('succeeded', 'failed', 'cancelled');
CREATE INDEX ix_jobs_workload ON jobs (workload_id);
CREATE INDEX ix_best_artifacts_sha256 ON best_artifacts (sha256);
CREATE UNIQUE INDEX uq_api_keys_name ON api_keys (name) WHERE revoked_at IS NULL;
CREATE INDEX ix_model_layers_job ON model_layers (job_seq);
CREATE INDEX ix_idempotency_keys_created ON idempotency_keys (created_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',8);
INSERT INTO "sqlite_sequence" VALUES('trials',7);
INSERT INTO "sqlite_sequence" VALUES('bests',1);
INSERT INTO "sqlite_sequence" VALUES('ladders',1);
INSERT INTO "sqlite_sequence" VALUES('models',1);
INSERT INTO "sqlite_sequence" VALUES('api_keys',3);
COMMIT;
