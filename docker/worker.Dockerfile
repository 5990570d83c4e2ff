# A worker for CUDA hosts, and for CPUs where the container is given no GPU.
#   docker build -f docker/worker.Dockerfile -t convtune-worker .
#
# No CUDA image underneath: NVRTC and CUDA's runtime come as wheels, pinned like everything else,
# and the driver's libraries from the host, through NVIDIA's Container Toolkit.

ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/convtune
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY api api
COPY db db
COPY templates templates
COPY tuner tuner
RUN --mount=type=cache,target=/root/.cache/pip \
    pip --python /opt/convtune/bin/python install -c constraints.txt '.[cuda,postgres,rpc]'

FROM python:${PYTHON}-slim-bookworm
# g++ links each library; Debian's releases keep only its newest build, so no version is named
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --create-home convtune \
    && install --directory --owner=convtune --group=convtune /data \
    && install --directory --mode=0700 --owner=convtune --group=convtune /keys
COPY --from=build /opt/convtune /opt/convtune
COPY docker/worker_health.py /opt/convtune/
ENV PATH=/opt/convtune/bin:$PATH \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    TUNER_DATABASE_URL=sqlite:////data/convtune.db \
    TUNER_SIGNING_KEY=/keys/signing_key.pem \
    TUNER_LOG_FORMAT=json
USER 10001
# the key outlives the container only in a volume that has a name; the service needs none of it
VOLUME ["/data", "/keys"]
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
    CMD ["python", "/opt/convtune/worker_health.py"]
CMD ["python", "-m", "tuner.worker"]
