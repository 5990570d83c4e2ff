# The service, without TVM: it answers from the database and compiles nothing.
#   docker build -f docker/api.Dockerfile -t convtune-api .

ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/convtune
COPY constraints.txt docker/api-requirements.txt ./
RUN --mount=type=cache,target=/root/.cache/pip \
    pip --python /opt/convtune/bin/python install -c constraints.txt -r api-requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY api api
COPY db db
COPY templates templates
# the version is written there; the rest of that room is the worker's, and so is its command
COPY tuner/__init__.py tuner/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip --python /opt/convtune/bin/python install --no-deps . \
    && rm /opt/convtune/bin/tuner

FROM python:${PYTHON}-slim-bookworm
RUN useradd --system --uid 10001 --user-group --create-home convtune \
    && install --directory --owner=convtune --group=convtune /data
COPY --from=build /opt/convtune /opt/convtune
ENV PATH=/opt/convtune/bin:$PATH \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    TUNER_DATABASE_URL=sqlite:////data/convtune.db \
    TUNER_HOST=0.0.0.0 \
    TUNER_PORT=8000
USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import os, urllib.request as http; http.urlopen('http://127.0.0.1:' + os.environ['TUNER_PORT'] + '/readyz', timeout=4)"]
CMD ["python", "-m", "api"]
