# The service on a CPU:
#   docker build -t densirank .
#   docker run --rm -p 127.0.0.1:8000:8000 -v ./model:/model:ro -v ./keys.txt:/run/keys:ro densirank
FROM python:3.11-slim AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY scripts scripts
COPY src src
# cpu: torch's CPU build, if its index answers. default: the build that pip chooses, with CUDA.
ARG TORCH=cpu
RUN python -m venv /opt/densirank \
 && PIP_NO_CACHE_DIR=1 /opt/densirank/bin/python scripts/torch_build.py \
 && /opt/densirank/bin/pip install --no-cache-dir --disable-pip-version-check \
    --constraint constraints.txt '.[serve]'

FROM python:3.11-slim
COPY --from=build /opt/densirank /opt/densirank
RUN useradd --system --no-create-home --shell /usr/sbin/nologin densirank
USER densirank
ENV PATH=/opt/densirank/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["densirank", "serve"]
CMD ["/model", "--host", "0.0.0.0", "--port", "8000", "--api-key-file", "/run/keys"]
