# The service as an image. The model is not part of it: mount a run folder or an exported file (docs/serve.md).
FROM python:3.11-slim AS wheel
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel /source

FROM python:3.11-slim
# For example another index, with PyTorch for CPUs alone.
ARG PIP_OPTIONS=""
COPY --from=wheel /wheel /wheel
COPY constraints.txt /wheel/
RUN pip install --no-cache-dir $PIP_OPTIONS -c /wheel/constraints.txt "$(ls /wheel/*.whl)[serve]" && rm -r /wheel
RUN useradd --create-home serve
USER serve
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["unihssl", "serve", "--host", "0.0.0.0"]
CMD ["/model"]
